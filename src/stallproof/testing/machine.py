"""A Hypothesis state machine for anybody's scheduler. Its invariants are the claims of the monitor."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, NamedTuple

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from stallproof.bounds import Bounds
from stallproof.lifecycle import Event
from stallproof.model import Kind, Move
from stallproof.monitor import ClaimViolated, Monitor, Violation
from stallproof.observations import Change, PassEnd, Pool, RequestId, Standing
from stallproof.report.consoles import printed
from stallproof.report.timeline import print_timeline
from stallproof.sweeping import changes_between
from stallproof.testing.coverage import GraphCoverage, coverage_of

MOST_PASSES_TO_DRAIN = 10_000
NO_ORDER = "a look between two passes does not tell for whom a request is given up"
UNTOLD = dict.fromkeys(("victim-behind-requester", "victim-makes-room", "victim-once-per-pass"), NO_ORDER)
CHOICES, MOST_MOVES = 8, 12


class Look(NamedTuple):
    """How a scheduler stands between two passes.

    ``requests``: the live ones, in order of arrival. ``free_gpu``, ``free_host``: pages; None if it does not tell.
    """

    requests: Iterable[Standing]
    free_gpu: int | None = None
    free_host: int | None = None


class LifecycleMachine(RuleBasedStateMachine):
    """Subclass it, fill in five methods, and take ``MyMachine.TestCase`` as a test.

    Hypothesis lets requests arrive, cancels them and runs passes, in any order; after every pass the claims are
    checked, and at the end everybody must finish. A failure is the program that leads to it, and the last passes.

    ``pool``: the memory, in pages. ``live``: requests at once. ``max_prompt``, ``max_output``: lengths in tokens.
    ``unclaimed``: properties that the scheduler does not claim. ``policy``: a policy that it claims to be, by name
    (``resident-first``); then ``chunk_tokens`` is that of its prefills, the run is measured against the exhaustive
    graph of the policy, steered to what it has not seen, and a failure comes with the shortest one.
    """

    pool: ClassVar[Pool] = Pool(gpu_pages=4, host_pages=1, page_tokens=1)
    live: ClassVar[int] = 3
    max_prompt: ClassVar[int] = 3
    max_output: ClassVar[int] = 3
    unclaimed: ClassVar[Iterable[str]] = ()
    policy: ClassVar[str | None] = None
    chunk_tokens: ClassVar[int] = 2

    # -- the five methods -----------------------------------------------------------------------------

    def start(self) -> None:
        """Make the scheduler, with nobody in it."""
        raise NotImplementedError

    def arrive(self, request: int, prompt: int, output: int) -> bool:
        """A request with these lengths arrives. Returns False if it is refused, since it can never fit."""
        raise NotImplementedError

    def cancel(self, request: int) -> None:
        """Cancel a live request."""
        raise NotImplementedError

    def run_pass(self) -> Mapping[RequestId, int]:
        """One pass; its tokens are computed, and who has its last one is gone. Returns the tokens by request."""
        raise NotImplementedError

    def look(self) -> Look:
        """Where every live request stands. Counts that are not known are None, and what needs them goes unchecked."""
        raise NotImplementedError

    @classmethod
    def _coverage_of_this(cls) -> GraphCoverage | None:
        if cls.policy is None:
            return None
        pool = cls.pool
        bounds = Bounds(
            live=cls.live,
            gpu_pages=pool.gpu_pages or 0,
            host_pages=pool.host_pages or 0,
            page_tokens=pool.page_tokens or 0,
            chunk_tokens=cls.chunk_tokens,
            max_prompt=cls.max_prompt,
            max_output=cls.max_output,
            early_stop=False,
            every_output=True,
        )
        return coverage_of(cls.policy, bounds)

    # -- the rules ------------------------------------------------------------------------------------

    @initialize()
    def begin(self) -> None:
        """An empty scheduler."""
        self._failed = False
        self._arrived = 0
        self._standing: dict[RequestId, Standing] = {}
        self._decoding: set[RequestId] = set()
        self._passes = 0
        self._coverage = self._coverage_of_this()
        self._history = 0
        self._state = None if self._coverage is None else 0
        self._monitor = Monitor(self.pool, unclaimed=self.unclaimed, untold=UNTOLD)
        self.start()

    @precondition(lambda self: len(self._standing) < self.live)
    @rule(
        prompt=st.runner().flatmap(lambda self: st.integers(1, self.max_prompt)),
        output=st.runner().flatmap(lambda self: st.integers(1, self.max_output)),
    )
    def arrives(self, prompt: int, output: int) -> None:
        """A request arrives."""
        with self._watched():
            self._arrive(prompt, output)

    @precondition(lambda self: self._standing)
    @rule(request=st.runner().flatmap(lambda self: st.sampled_from(list(self._standing))))
    def is_cancelled(self, request: int) -> None:
        """A live request is cancelled."""
        with self._watched():
            self._cancel(request)

    @rule()
    def a_pass(self) -> None:
        """The scheduler runs a pass."""
        with self._watched():
            self._run_pass()

    @precondition(lambda self: self.policy is not None)
    @rule(choice=st.integers(0, CHOICES - 1), moves=st.integers(1, MOST_MOVES))
    def towards_the_unseen(self, choice: int, moves: int) -> None:
        """Some moves, each on the way to an edge of the policy's graph that was not seen so far."""
        assert self._coverage is not None
        for _ in range(moves):
            with self._watched():
                self._make(self._coverage.towards_the_unseen(self._state, choice, self._history) or Move(Kind.PASS))

    def _make(self, move: Move) -> None:
        if move.kind in (Kind.ARRIVE, Kind.REFUSE):
            note(f"  a request arrives, prompt {move.prompt}, output {move.output}")
            self._arrive(move.prompt, move.output)
        elif move.kind is Kind.CANCEL:
            request = list(self._standing)[move.request]
            note(f"  request {request} is cancelled")
            self._cancel(request)
        else:
            note("  a pass")
            self._run_pass()

    def teardown(self) -> None:
        """Nobody arrives any more: everybody finishes."""
        if getattr(self, "_failed", True):
            return
        seen: set[tuple[Any, ...]] = set()
        with self._watched():
            for _ in range(MOST_PASSES_TO_DRAIN):
                if not self._standing:
                    return
                self._run_pass()
                standing = tuple(self._standing.values())
                if standing in seen:
                    self._never_finishes("the passes go round in a circle, computing tokens, and nobody finishes")
                seen.add(standing)
            self._never_finishes(f"after {MOST_PASSES_TO_DRAIN:,} passes without an arrival some have not finished")

    # -- how it is done -------------------------------------------------------------------------------

    def _arrive(self, prompt: int, output: int) -> None:
        request, self._arrived = self._arrived, self._arrived + 1
        if not self.arrive(request, prompt, output):
            self._require_rightly_refused(prompt, output)
            self._see(Move(Kind.REFUSE, prompt=prompt, output=output))
            return
        self._look([Change(Event.ARRIVE, request, 0, 0, prompt, 0, prompt + output)])
        self._see(Move(Kind.ARRIVE, prompt=prompt, output=output))

    def _require_rightly_refused(self, prompt: int, output: int) -> None:
        pool = self.pool
        if pool.gpu_pages is None or pool.page_tokens is None:
            return
        peak = -(-(prompt + output - 1) // pool.page_tokens)  # the last token is never computed
        if peak <= pool.gpu_pages:
            raise AssertionError(
                f"a request of {prompt} prompt and {output} output tokens was refused: it needs {peak} pages at its "
                f"longest, and the GPU has {pool.gpu_pages}"
            )

    def _cancel(self, request: RequestId) -> None:
        row = list(self._standing).index(request)
        self.cancel(int(request))
        self._look([Change(Event.CANCEL, request, 0, 0)])
        self._see(Move(Kind.CANCEL, request=row))

    def _run_pass(self) -> None:
        self._passes += 1
        scheduled = dict(self.run_pass())
        self._look([], scheduled)
        self._see(Move(Kind.PASS))

    def _look(self, told: list[Change], scheduled: Mapping[RequestId, int] | None = None) -> None:
        """Tell the monitor what changed. Without ``scheduled`` there was no pass."""
        look = self.look()
        before, after = self._standing, {standing.request: standing for standing in look.requests}
        for change in told:
            self._monitor.observe(change)
        self._standing = after
        if scheduled is None:
            return
        for change in changes_between(before, after, scheduled):
            self._monitor.observe(change)
            if change.event is Event.RECOMPUTE_PAUSE:
                self._decoding.discard(change.request)
        for request, standing in after.items():
            if request in before and (standing.tokens or 0) > (before[request].tokens or 0):
                self._decoding.add(request)
        self._monitor.observe(PassEnd(self._passes, scheduled, look.free_gpu, look.free_host))

    def _see(self, move: Move) -> None:
        if self._coverage is not None:
            after = self._coverage.state_of(list(self._standing.values()), self._decoding)
            self._coverage.see(self._state, move, after)
            self._history = hash((self._history, move.label))
            self._state = after

    def _never_finishes(self, what: str) -> None:
        requests = tuple(self._standing)
        stands = ", ".join(f"{s.request} is {s.phase.label}" for s in self._standing.values())
        sentence = "The oldest live request finishes."
        raise ClaimViolated(Violation("oldest-finishes", sentence, self._passes, requests, f"{what}: {stands}"))

    @contextmanager
    def _watched(self) -> Iterator[None]:
        """A violation comes with the shortest run to it, where the policy's graph has one; then nothing is drained."""
        self._failed = True
        try:
            yield
        except ClaimViolated as error:
            trace = None if self._coverage is None else self._coverage.shortest(error.violation.property)
            if trace is None:
                raise
            shortest = printed(lambda console: print_timeline([trace], console))
            raise AssertionError(f"{error}\n\nThe shortest run of {self.policy} to the same:\n{shortest}") from None
        assert self._monitor.faults == 0, f"the monitor failed: {self._monitor.fault}"
        self._failed = False
