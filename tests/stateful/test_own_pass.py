"""The fuzz of our own pass and page manager together: 2,000 steps here, a million with ``make fuzz``."""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

from tests.stateful.own_pass import OwnPass

STEPS_A_RUN = 50
RUNS = int(os.environ.get("FUZZ_STEPS", "2000")) // STEPS_A_RUN

FUZZ = settings(
    max_examples=RUNS,
    stateful_step_count=STEPS_A_RUN,
    deadline=None,
    derandomize="FUZZ_STEPS" not in os.environ,
    suppress_health_check=list(HealthCheck),
)


class TestOwnPass(OwnPass.TestCase):
    settings = FUZZ
