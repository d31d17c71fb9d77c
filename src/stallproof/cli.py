"""The command line: one group, a verb each. ``stallproof --help`` lists them."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from stallproof import __version__
from stallproof.bounds import Bounds
from stallproof.errors import EXIT_USAGE, RuleNotCompiled, StallproofError

EXIT_CODES = "exit codes: 0 holds, 1 violated, 2 bad input, 3 bound reached, 4 a defect of stallproof itself"


POLICY = "one of `stallproof policies`, or FILE.py:NAME, see docs/write-a-policy.md"
COST = "fifty to a hundred times slower"


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = argparse.ArgumentParser(
        prog="stallproof",
        description="A checked request lifecycle for LLM serving under KV-cache pressure.",
        epilog=EXIT_CODES,
    )
    top.add_argument("--version", action="version", version=f"stallproof {__version__}")
    verbs = top.add_subparsers(dest="verb", required=True, metavar="VERB")
    _check(verbs.add_parser("check", help="explore a policy exhaustively within bounds", epilog=EXIT_CODES))
    _drive(verbs.add_parser("drive", help="drive the page manager over a workload", epilog=EXIT_CODES))
    explain = verbs.add_parser("explain", help="replay a saved trace and show it; exit 1 if it still breaks its claim")
    explain.add_argument(
        "file", metavar="FILE", help="what check --trace or a monitor wrote; a policy FILE.py:NAME in it is run"
    )
    replay = verbs.add_parser("replay", help="check a recording", epilog=EXIT_CODES)
    replay.add_argument(
        "file", metavar="RECORDING", help="what drive --record or a monitor wrote; a policy FILE.py:NAME in it is run"
    )
    diagram = verbs.add_parser("diagram", help="print the lifecycle's diagram, or the graph of the states reached")
    diagram.add_argument("--format", choices=("mermaid", "dot", "svg"), default="mermaid")
    diagram.add_argument(
        "--reachable", action="store_true", help="the states reached, by how many requests are in which phase"
    )
    diagram.add_argument("--graphml", metavar="FILE", help="write the whole graph of the states reached, for networkx")
    _sizes(diagram)
    policies = verbs.add_parser("policies", help="judge every policy at the reference bounds")
    policies.add_argument("--format", choices=("table", "markdown"), default="table")
    _compare(verbs.add_parser("compare", help="two policies side by side", epilog=EXIT_CODES))
    bench = verbs.add_parser("bench", help="measure the explorer, the pass or the monitor")
    bench.add_argument("what", choices=("explorer", "pass", "monitor"), nargs="?", default="explorer")
    for verb in (
        verbs.choices[name] for name in ("check", "drive", "explain", "replay", "policies", "compare", "bench")
    ):
        verb.add_argument("--json", metavar="FILE", help="write the result as JSON; - for standard output")
    return top


def _sizes(verb: argparse.ArgumentParser) -> None:
    """The options that say what is explored."""
    verb.add_argument("--policy", default="resident-first", metavar="NAME", help=POLICY)
    _bounds(verb)


def _bounds(verb: argparse.ArgumentParser) -> None:
    """The options that say how much is explored."""
    default = Bounds()
    for option, value, help_text in (
        ("live", default.live, "requests at once; arrivals over time have no limit"),
        ("gpu-pages", default.gpu_pages, "pages of the GPU tier"),
        ("host-pages", default.host_pages, "pages of the host tier; 0: there is none"),
        ("page-tokens", default.page_tokens, "tokens a page"),
        ("chunk-tokens", default.chunk_tokens, "the most prefill tokens of one request in one pass"),
        ("max-prompt", default.max_prompt, "the longest prompt, in tokens"),
        ("max-output", default.max_output, "the longest output, in tokens"),
        ("lookahead", default.lookahead, "drafts of a decode, any number of which is right"),
        ("state-pages", default.state_pages, "pages of recurrent state, beside those of the tokens"),
        ("priorities", default.priorities, "how many priorities requests may have; 0 is served first"),
        ("pass-requests", default.pass_requests, "the most requests that a pass schedules, 0: no limit"),
        ("pass-tokens", default.pass_tokens, "the most tokens that a pass schedules, 0: no limit"),
    ):
        verb.add_argument(f"--{option}", type=int, default=value, metavar="N", help=f"{help_text} (default {value})")
    verb.add_argument(
        "--copies", action="store_true", help="copies between the tiers take time and fence their pages until done"
    )
    verb.add_argument("--no-cancel", action="store_true", help="nobody cancels a request")
    verb.add_argument("--no-early-stop", action="store_true", help="every request generates its whole output")
    verb.add_argument("--every-output", action="store_true", help="explore every output length, redundant ones too")


def _check(verb: argparse.ArgumentParser) -> None:
    _sizes(verb)
    verb.add_argument("--unclaimed", action="append", default=[], metavar="PROPERTY", help="do not claim this property")
    _search(verb)
    verb.add_argument("--worst-cases", action="store_true", help="all worst cases, each with a run that shows it")
    verb.add_argument("--trace", metavar="FILE", help="write the first shortest counterexample, for explain")


def _search(verb: argparse.ArgumentParser) -> None:
    """The options that say how it is explored."""
    verb.add_argument("--max-states", type=int, metavar="N", help="give up after N states (exit 3)")
    verb.add_argument("--threads", type=int, metavar="N", help="default: one a core")


def _compare(verb: argparse.ArgumentParser) -> None:
    _bounds(verb)
    _search(verb)
    verb.add_argument("--trace", metavar="TRACE", help="a workload, as for drive: how much each policy costs on it")
    verb.add_argument("--limit", type=int, metavar="N", help="only the first N requests of the workload")
    verb.add_argument("--trace-gpu-pages", type=int, metavar="N", help="default: half of the workload's peak demand")
    verb.add_argument("--trace-host-pages", type=int, metavar="N", help="default: half of the GPU's; 0: no host tier")
    verb.add_argument(
        "--format", choices=("table", "markdown", "json"), default="table", help="markdown: for a pull request"
    )
    verb.add_argument("one", metavar="A", help=f"a policy: {POLICY}")
    verb.add_argument("other", metavar="B", help="another policy")


def _drive(verb: argparse.ArgumentParser) -> None:
    verb.add_argument("--policy", default="resident-first", metavar="NAME", help=POLICY)
    verb.add_argument("--gpu-pages", type=int, metavar="N", help="default: half of the workload's peak demand")
    verb.add_argument("--host-pages", type=int, metavar="N", help="default: half of the GPU's; 0: no host tier")
    verb.add_argument("--page-tokens", type=int, default=64, metavar="N", help="tokens a page (default 64)")
    verb.add_argument(
        "--chunk-tokens", type=int, default=2048, metavar="N", help="prefill tokens a pass (default 2048)"
    )
    verb.add_argument("--arrivals", choices=("trace", "burst"), default="trace", help="by timestamps, or all at once")
    verb.add_argument(
        "--pass-milliseconds",
        type=float,
        default=30.0,
        metavar="MS",
        help="the workload's time that a pass takes (default 30)",
    )
    verb.add_argument("--device", choices=("auto", "cpu", "cuda"), default="auto")
    verb.add_argument("--limit", type=int, metavar="N", help="only the first N requests")
    verb.add_argument("--checks", choices=("off", "sample", "full"), default="full", help="default: full")
    verb.add_argument("--record", metavar="FILE", help="write what happens, for replay; a name in .zst is compressed")
    verb.add_argument(
        "workload",
        metavar="TRACE",
        help="Mooncake JSON lines or Azure CSV; or the word 'conversation': a generated one",
    )


def _interpreted(arguments: Sequence[str], why: RuleNotCompiled) -> int:
    """The same command in a Python process in which nothing is compiled."""
    from stallproof.compiled import interpreted_environment

    print(f"stallproof: warning: {why} Until then everything runs interpreted, {COST}.", file=sys.stderr, flush=True)
    return subprocess.run(
        [sys.executable, "-m", "stallproof.cli", *arguments], check=False, env=interpreted_environment()
    ).returncode


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command. Returns its exit code."""
    if sys.stdout is None or sys.stderr is None:
        return EXIT_USAGE  # there is nowhere to say why
    options = parser().parse_args(arguments)
    try:
        from stallproof import commands

        return int(getattr(commands, options.verb)(options))
    except RuleNotCompiled as error:
        return _interpreted(sys.argv[1:] if arguments is None else arguments, error)
    except StallproofError as error:
        print(f"stallproof: error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("stallproof: interrupted", file=sys.stderr)
        return 130
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return EXIT_USAGE
    except MemoryError:
        print("stallproof: error: out of memory. Take smaller bounds, or --max-states.", file=sys.stderr)
        return EXIT_USAGE
    except OSError as error:
        place = f"{Path(str(error.filename)).name}: " if error.filename else ""
        print(f"stallproof: error: {place}{error.strerror or error}", file=sys.stderr)
        return EXIT_USAGE


if __name__ == "__main__":
    sys.exit(main())
