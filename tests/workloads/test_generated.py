"""The generated workload: the same for a seed, and true to the figures it is drawn from."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from stallproof.errors import UsageError
from stallproof.workloads import Workload, conversation
from stallproof.workloads.generated import GAP_MILLISECONDS, OUTPUT_TOKENS, PROMPT_TOKENS, at_quantile

DRAWS = 20_000
LEVELS = np.arange(1, 200) / 200

# How far may the quantiles of 20,000 draws lie from the table? Dvoretzky, Kiefer and Wolfowitz, with
# Massart's constant: the empirical distribution of n draws is nowhere further than e from the true one,
# but for a chance of 2 exp(-2 n e^2). At a chance of 1e-6: e = sqrt(ln(2e6) / (2 n)) = sqrt(14.51 / 40,000)
# = 0.01905. So the empirical quantile at p lies between the table's at p - e and at p + e.
BAND = math.sqrt(math.log(2 / 1e-6) / (2 * DRAWS))


def within_the_band(values: npt.NDArray[np.float64], table: tuple[int, ...], rounding: float) -> bool:
    """Whether all quantiles lie in the band; rounding a value moves it by at most ``rounding``."""
    drawn = np.quantile(values, LEVELS, method="inverted_cdf")
    low = at_quantile(table, np.clip(LEVELS - BAND, 0, 1)) - rounding
    high = at_quantile(table, np.clip(LEVELS + BAND, 0, 1)) + rounding
    return bool(np.all((low <= drawn) & (drawn <= high)))


@pytest.fixture(scope="module")
def drawn() -> Workload:
    return conversation(DRAWS, seed=11)


def test_the_band_is_narrower_than_the_step_of_the_tables() -> None:
    assert 0.0190 < BAND < 0.0191 < 1 / 40


@pytest.mark.parametrize("seed", range(5))
def test_quantiles_of_many_draws_agree_with_the_tables(seed: int) -> None:
    """Gaps are differences of a sum of up to 7e3 seconds: 1e-6 ms is far above its rounding, 1e-9 ms."""
    workload = conversation(DRAWS, seed)
    assert within_the_band(workload.prompt_tokens.astype(np.float64), PROMPT_TOKENS, rounding=0.5)
    assert within_the_band(workload.output_tokens.astype(np.float64), OUTPUT_TOKENS, rounding=0.5)
    assert within_the_band(1000 * np.diff(workload.arrival_seconds), GAP_MILLISECONDS, rounding=1e-6)


def test_the_band_tells_a_wrong_draw(drawn: Workload) -> None:
    """Lengths a tenth too long, or the two columns exchanged, fall outside: the check above has teeth."""
    prompts = drawn.prompt_tokens.astype(np.float64)
    assert not within_the_band(1.1 * prompts, PROMPT_TOKENS, rounding=0.5)
    assert not within_the_band(prompts, OUTPUT_TOKENS, rounding=0.5)
    assert not within_the_band(3000 * (np.arange(DRAWS) % 5 == 0), GAP_MILLISECONDS, rounding=1e-6)


def test_prompt_and_output_are_independent(drawn: Workload) -> None:
    """Of n independent pairs the rank correlation is about normal with deviation 1 / sqrt(n - 1) = 0.0071;
    five of them, a chance of 6e-7, is 0.035."""
    ranks = [np.argsort(np.argsort(column)) for column in (drawn.prompt_tokens, drawn.output_tokens)]
    assert abs(np.corrcoef(ranks)[0, 1]) < 5 / math.sqrt(DRAWS - 1)


def test_values_stay_within_the_measured_range_and_time_never_goes_back(drawn: Workload) -> None:
    assert len(drawn) == DRAWS
    assert drawn.prompt_tokens.min() >= 891
    assert drawn.prompt_tokens.max() <= 121_924
    assert drawn.output_tokens.min() >= 1
    assert drawn.output_tokens.max() <= 2000
    assert drawn.arrival_seconds[0] == 0
    assert np.all(np.diff(drawn.arrival_seconds) >= 0)
    assert (drawn.name, drawn.skipped) == ("conversation", 0)


def test_the_types_are_those_of_a_trace_read(drawn: Workload) -> None:
    assert drawn.arrival_seconds.dtype == np.float64
    assert drawn.prompt_tokens.dtype == drawn.output_tokens.dtype == np.int64


def assert_equal(one: Workload, other: Workload) -> None:
    for column in ("arrival_seconds", "prompt_tokens", "output_tokens"):
        np.testing.assert_array_equal(getattr(one, column), getattr(other, column))


def test_the_same_seed_gives_the_same_requests() -> None:
    assert_equal(conversation(500, seed=3), conversation(500, seed=3))


def test_another_seed_gives_other_requests() -> None:
    one, other = conversation(500, seed=3), conversation(500, seed=4)
    assert (one.prompt_tokens != other.prompt_tokens).mean() > 0.9


def test_fewer_requests_are_the_first_of_more() -> None:
    assert_equal(conversation(500, seed=3).first(120), conversation(120, seed=3))
    assert_equal(conversation(500, seed=3).first(1), conversation(1, seed=3))


def test_the_draw_is_pinned() -> None:
    """A numpy that changed its generator would change every generated workload: this would say so."""
    workload = conversation(4)
    assert workload.prompt_tokens.tolist() == [43203, 4419, 16171, 1211]
    assert workload.output_tokens.tolist() == [453, 153, 419, 326]


@pytest.mark.parametrize("table", [PROMPT_TOKENS, OUTPUT_TOKENS, GAP_MILLISECONDS])
def test_each_table_has_41_quantiles_that_never_fall(table: tuple[int, ...]) -> None:
    assert len(table) == 41
    assert list(table) == sorted(table)


def test_impossible_wishes_are_refused() -> None:
    with pytest.raises(UsageError, match=r"^0 requests cannot be generated\. Ask for at least 1\.$"):
        conversation(0)
    with pytest.raises(UsageError, match=r"^the seed is -1, which is negative\. Use 0 or more\.$"):
        conversation(seed=-1)
