"""Recordings: what was observed of a scheduler, as newline-delimited JSON, written as it happens and read again.

The first line says what is watched and where its requests stand::

    {"stallproof": "recording", "version": 1, "pool": {"gpu_pages": 4, ...}, "policy": "resident-first", "requests": []}

Every other line is one observation, numbered from 1::

    {"n": 1, "event": "arrive", "request": 0, "tokens": 3, "most_tokens": 5}
    {"n": 2, "pass": 1, "scheduled": [[0, 2]], "free_gpu": 2, "free_host": 1}

What is not told is left out. A file whose name ends in ``.zst`` is compressed (package ``zstandard``).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, NamedTuple

from stallproof.errors import TraceFormatError, UsageError
from stallproof.lifecycle import Event, Phase
from stallproof.observations import Change, Observation, PassEnd, Pool, RequestId, Standing

VERSION = 1
EVENTS = {event.label: event for event in Event}
PHASES = {phase.label: phase for phase in Phase}
COUNTS = ("gpu_pages", "host_pages", "tokens", "computed", "most_tokens")


class Header(NamedTuple):
    """What is watched. ``policy``: the scheduler's, None if it is none of ours; ``chunk_tokens``: of its prefills."""

    pool: Pool
    policy: str | None = None
    chunk_tokens: int | None = None
    requests: Sequence[Standing] = ()


def _told(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value for name, value in pairs if value is not None}


def header_line(header: Header) -> str:
    """The first line of a recording."""
    standing = [
        _told([("request", s.request), ("phase", s.phase.label), *zip(COUNTS, s[2:7], strict=True)])
        | _told([("suspension", s.suspension)])
        for s in header.requests
    ]
    says: dict[str, Any] = {"stallproof": "recording", "version": VERSION, "pool": _told(header.pool._asdict().items())}
    says |= _told([("policy", header.policy), ("chunk_tokens", header.chunk_tokens)])
    return json.dumps(says | {"requests": standing})


def line_of(number: int, seen: Observation) -> str:
    """The line of observation ``number``."""
    if isinstance(seen, Change):
        told = [("event", seen.event.label), ("request", seen.request), *zip(COUNTS, seen[2:7], strict=True)]
        return json.dumps({"n": number} | _told([*told, ("requester", seen.requester)]))
    scheduled = [[request, tokens] for request, tokens in seen.scheduled.items()]
    free = _told([("free_gpu", seen.free_gpu), ("free_host", seen.free_host), ("in_flight", seen.in_flight or None)])
    if seen.lists is not None:
        free["lists"] = {phase.label: list(requests) for phase, requests in seen.lists.items()}
    if seen.grown is not None:
        free["grown"] = [[request, pages] for request, pages in seen.grown.items()]
    return json.dumps({"n": number, "pass": seen.number, "scheduled": scheduled} | free)


class Recorder:
    """Writes a recording line by line; each is on its way to the disk before :meth:`write` returns.

    A process that is killed loses at most the line it was writing. Raises UsageError if the file cannot be written.
    """

    def __init__(self, path: str | Path, header: Header) -> None:
        self._number = 0
        self._compressor = _zstandard().ZstdCompressor().compressobj() if str(path).endswith(".zst") else None
        try:
            self._file: BinaryIO = Path(path).open("wb")  # noqa: SIM115 - closed by close()
        except OSError as error:
            raise UsageError(
                f"'{path}' cannot be written ({error.strerror})", remedy="Give a file in a folder with room for it."
            ) from None
        self._put(header_line(header))

    def write(self, seen: Observation) -> None:
        """Add one observation."""
        self._number += 1
        self._put(line_of(self._number, seen))

    def _put(self, line: str) -> None:
        data = (line + "\n").encode()
        if self._compressor is not None:
            data = self._compressor.compress(data) + self._compressor.flush(_zstandard().COMPRESSOBJ_FLUSH_BLOCK)
        self._file.write(data)
        self._file.flush()

    def close(self) -> None:
        """End the file."""
        if not self._file.closed:
            if self._compressor is not None:
                self._file.write(self._compressor.flush())
            self._file.close()

    def __enter__(self) -> Recorder:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


@dataclass
class Recording:
    """A recording as it was read, and what was wrong with its lines. Those that could be read are all there.

    ``unreadable``: line number and reason. ``missing``: how many numbers were skipped. ``out_of_order``: line numbers
    of observations whose number is not above those before; they are left out. ``truncated``: the last line has no end.
    """

    header: Header
    observations: list[Observation] = field(default_factory=list)
    unreadable: list[tuple[int, str]] = field(default_factory=list)
    missing: int = 0
    out_of_order: list[int] = field(default_factory=list)
    truncated: bool = False


def is_recording(path: str | Path) -> bool:
    """The file's first line is that of a recording, or its name says it is compressed. False if it cannot be read."""
    if str(path).endswith(".zst"):
        return True
    try:
        with Path(path).open("rb") as file:
            first = file.readline(1 << 16)
    except (OSError, ValueError):  # no file, or a name that no file can have
        return False
    return b'"stallproof"' in first and b'"recording"' in first


def read_recording(path: str | Path) -> Recording:
    """Read a recording. Raises TraceFormatError if its first line cannot be read, UsageError if there is no file."""
    lines, truncated = _lines(path)
    first = next(lines, None)
    if first is None:
        raise TraceFormatError(f"'{path}' is empty", remedy="A recording begins with a line that says what is watched.")
    recording = Recording(_header(first, path))
    last = 0
    for number, line in enumerate(lines, start=2):
        try:
            n, seen = _observation(line)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            recording.unreadable.append((number, str(error)))
            continue
        if n <= last:
            recording.out_of_order.append(number)
            continue
        recording.missing += n - last - 1
        last = n
        recording.observations.append(seen)
    recording.truncated = truncated()
    if recording.truncated and recording.unreadable and recording.unreadable[-1][0] == number:
        recording.unreadable.pop()  # told as truncated
    elif recording.missing and recording.unreadable:
        recording.missing = max(0, recording.missing - len(recording.unreadable))
    return recording


def _lines(path: str | Path) -> tuple[Iterator[str], Any]:
    """The lines, and a function that says whether the last one had no end."""
    try:
        data = Path(path).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise UsageError(f"'{path}' cannot be read ({why})", remedy="Give a recording's file.") from None
    if str(path).endswith(".zst"):
        data = _decompressed(data)
    text = data.decode("utf-8", errors="replace")
    return iter(text.splitlines()), lambda: not text.endswith("\n")


def _decompressed(data: bytes) -> bytes:
    """As much as a perhaps unfinished file holds."""
    zstandard = _zstandard()
    decompressor = zstandard.ZstdDecompressor().decompressobj()
    try:
        return bytes(decompressor.decompress(data))
    except zstandard.ZstdError as error:
        raise UsageError(f"the recording cannot be decompressed ({error})", remedy="Is it a .zst file?") from None


def _zstandard() -> Any:
    try:
        return import_module("zstandard")
    except ImportError:
        raise UsageError(
            "a name that ends in .zst asks for compression",
            remedy="Install the package zstandard, or take another name.",
        ) from None


def _header(line: str, path: str | Path) -> Header:
    place = f"{path}, line 1"
    try:
        says = json.loads(line)
        if says["stallproof"] != "recording":
            raise ValueError("it is not a recording")
        if says["version"] != VERSION:
            raise ValueError(f"it has version {says['version']}, this reads version {VERSION}")
        pool = Pool(*(_count(says["pool"], name) for name in Pool._fields))
        standing = [
            Standing(_id(s["request"]), PHASES[s["phase"]], suspension=_count(s, "suspension"), **_counts(s))
            for s in says.get("requests", [])
        ]
        return Header(pool, says.get("policy"), _count(says, "chunk_tokens"), standing)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise TraceFormatError(
            f"this is no first line of a recording: {error}",
            place,
            "Give a file that `drive --record` or a monitor wrote.",
        ) from None


def _observation(line: str) -> tuple[int, Observation]:
    says = json.loads(line)
    n = says["n"]
    if type(n) is not int:
        raise ValueError(f"n is {n!r}, not a number")
    if "event" in says:
        if says["event"] not in EVENTS:
            raise ValueError(f"there is no event {says['event']!r}")
        requester = None if says.get("requester") is None else _id(says["requester"])
        return n, Change(EVENTS[says["event"]], _id(says["request"]), requester=requester, **_counts(says))
    scheduled = _by_request(says["scheduled"])
    grown = _by_request(says["grown"]) if "grown" in says else None
    free = (_count(says, "free_gpu"), _count(says, "free_host"))
    lists = None
    if "lists" in says:
        lists = {PHASES[label]: [_id(request) for request in listed] for label, listed in says["lists"].items()}
    return n, PassEnd(_whole(says["pass"]), scheduled, *free, _count(says, "in_flight") or 0, lists, grown)


def _by_request(pairs: Any) -> dict[RequestId, int]:
    return {_id(request): _whole(count) for request, count in pairs}


def _id(value: Any) -> RequestId:
    if type(value) not in (int, str):
        raise ValueError(f"a request is named by a number or a text, not {value!r}")
    return value


def _counts(says: dict[str, Any]) -> dict[str, int | None]:
    return {name: _count(says, name) for name in COUNTS}


def _count(says: dict[str, Any], name: str) -> int | None:
    return None if says.get(name) is None else _whole(says[name], name)


def _whole(value: Any, name: str = "a count") -> int:
    if type(value) is not int:
        raise ValueError(f"{name} is {value!r}, not a whole number")
    return value
