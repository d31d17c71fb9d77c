"""The pytest plug-in: a marker that explores a policy, a fixture with its result, and the coverage of fuzzing.

::

    @pytest.mark.stallproof(policy="my_policy.py:mine", live=3, gpu_pages=4)
    def test_my_policy_does_not_stall(stallproof):
        assert stallproof.worst_case["preemptions_of_one_request"] < 10

A marked test fails, before it runs, with the timeline of the shortest counterexample if a claimed property is violated
within the bounds, or if the search was cut off. Arguments are ``policy``, the fields of :class:`stallproof.Bounds`, and
``max_states``. Nothing is loaded for tests without the marker.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from stallproof.checking import CheckResult

MARKER = "stallproof"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        "stallproof(policy, **bounds): explore the policy within bounds; the test fails if a claim is violated",
    )


@pytest.fixture
def stallproof(request: pytest.FixtureRequest) -> CheckResult:
    """The result of the marked test's exploration, a :class:`stallproof.checking.CheckResult`."""
    result = _explored(request.node)
    if result is None:
        pytest.fail("the fixture stallproof needs @pytest.mark.stallproof(policy=..., live=...)", pytrace=False)
    return result


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> None:
    """Explore what the marker asks for; fail with the timeline."""
    result = _explored(item)
    if result is None or result.exit_code == 0:
        return
    from stallproof.report.consoles import printed
    from stallproof.report.verdicts import print_check

    pytest.fail(printed(lambda console: print_check(result, console)), pytrace=False)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """How much of the exhaustive graphs the fuzzing of this process saw."""
    coverage = sys.modules.get("stallproof.testing.coverage")
    measured = coverage.MEASURED if coverage is not None else []
    if measured:
        terminalreporter.section("stallproof: fuzzing against the exhaustive graph")
        for one in measured:
            terminalreporter.write_line(one.summary())


_RESULTS = pytest.StashKey[Any]()


def _explored(item: pytest.Item) -> CheckResult | None:
    """The result, explored once for a test; None if it has no marker."""
    marker = item.get_closest_marker(MARKER)
    if marker is None:
        return None
    if _RESULTS not in item.stash:
        from stallproof.bounds import Bounds
        from stallproof.checking import check
        from stallproof.errors import StallproofError

        options: dict[str, Any] = dict(zip(("policy",), marker.args, strict=False)) | dict(marker.kwargs)
        policy, max_states = options.pop("policy", "resident-first"), options.pop("max_states", None)
        if len(marker.args) > 1 or (unknown := options.keys() - set(Bounds._fields)):
            wrong = f"there is no '{min(unknown)}'" if len(marker.args) < 2 else "only the policy has no name"
            known = ", ".join(("policy", "max_states", *Bounds._fields))
            pytest.fail(f"@pytest.mark.stallproof: {wrong}. Its arguments are {known}.", pytrace=False)
        try:
            item.stash[_RESULTS] = check(policy, Bounds(**options), max_states=max_states)
        except StallproofError as error:
            pytest.fail(f"@pytest.mark.stallproof: {error}", pytrace=False)
    return item.stash[_RESULTS]
