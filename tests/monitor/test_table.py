"""The monitor's table: its shortcut for steady decode against counting every request by hand."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from stallproof.lifecycle import Event, Phase
from stallproof.monitor.table import Table
from stallproof.observations import Change, PassEnd, Pool, Standing

NAMES = "abcd"
POOL = Pool(1000, 1000, 4)
PASSES = st.dictionaries(st.sampled_from(NAMES), st.sampled_from([0, 1, 1, 1, 1, 3]))
STEADY = st.just(dict.fromkeys(NAMES, 1))
GROWTHS = st.tuples(st.just("grow"), st.sampled_from(NAMES), st.integers(1, 6))
CHANGES = st.builds(
    Change,
    st.sampled_from([Event.ARRIVE, Event.ADMIT, Event.SUSPEND, Event.RESUME, Event.RECOMPUTE_PAUSE, Event.FINISH]),
    st.sampled_from(NAMES),
    st.integers(0, 6),
    st.just(0),
    computed=st.none() | st.integers(0, 9),
)


class CountedByHand:
    """A dumb second one: every count is a number, every pass touches everybody."""

    def __init__(self, standing):
        self.phase = {s.request: s.phase for s in standing}
        self.pages = {s.request: s.gpu_pages for s in standing}
        self.computed = {s.request: s.computed for s in standing}

    def change(self, change):
        name, leads_to = change.request, {Event.ARRIVE: Phase.WAITING, Event.SUSPEND: Phase.SUSPENDED}
        leads_to |= {Event.ADMIT: Phase.ACTIVE, Event.RESUME: Phase.ACTIVE}
        leads_to[Event.RECOMPUTE_PAUSE] = Phase.RECOMPUTE_PAUSED
        forgets = change.event in (Event.FINISH, Event.RECOMPUTE_PAUSE) or name not in self.phase
        if forgets or change.computed is not None:
            self.computed.pop(name, None)
        if change.event is Event.FINISH:
            self.phase.pop(name, None)
            return
        self.phase[name], self.pages[name] = leads_to[change.event], change.gpu_pages
        if change.computed is not None:
            self.computed[name] = change.computed

    def advance(self, scheduled):
        for name, tokens in scheduled.items():
            if name in self.computed:
                self.computed[name] += tokens

    @property
    def overfull(self):
        active = (name for name, phase in self.phase.items() if phase is Phase.ACTIVE)
        return {name for name in active if self.computed.get(name, 0) > 4 * self.pages[name]}


@given(st.lists(PASSES | PASSES | STEADY | GROWTHS | CHANGES, max_size=40))
def test_computed_tokens_and_full_pages_are_those_counted_one_by_one(happens):
    """Steady passes, passes that leave some out or give some more, growth and changes, in any order, also nonsense."""
    standing = [Standing(name, Phase.ACTIVE, 2, 0, 40, 3) for name in NAMES]
    table, by_hand = Table(POOL, standing), CountedByHand(standing)
    for seen in happens:
        if isinstance(seen, Change):
            table.apply(seen)
            by_hand.change(seen)
        elif isinstance(seen, tuple):
            _, name, pages = seen
            if name in table.live:
                table.grow(name, pages)
                by_hand.pages[name] = pages
        else:
            overfull = table.advance(PassEnd(1, seen))
            by_hand.advance(seen)
            assert set(overfull) == by_hand.overfull
        assert {name: table.computed_of(name) for name in NAMES} == {n: by_hand.computed.get(n) for n in NAMES}
    assert table.gpu_pages == sum(by_hand.pages[name] for name in by_hand.phase)


def test_a_copy_stays_as_it_was():
    """Watching goes on for a hundred passes; the copy still knows when its one page of four tokens is full."""
    table = Table(POOL, [Standing("a", Phase.ACTIVE, 1, 0, 9, 2)])
    copy = table.copy()
    for number in range(100):
        table.advance(PassEnd(number, {"a": 1}))
    assert (table.computed_of("a"), copy.computed_of("a")) == (102, 2)
    assert [bool(copy.advance(PassEnd(number, {"a": 1}))) for number in range(3)] == [False, False, True]
