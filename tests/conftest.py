"""For every test: how hypothesis works.

The examples are the same each time and on every machine, so that a change is judged by what it changed. `make slow` (or
HYPOTHESIS_PROFILE=random) draws new ones. No example is timed: a machine may be busy.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

NOT_TIMED = (HealthCheck.too_slow,)

settings.register_profile("fixed", deadline=None, derandomize=True, suppress_health_check=NOT_TIMED)
settings.register_profile("random", deadline=None, suppress_health_check=NOT_TIMED)
# Hypothesis also tries the constants of whatever modules are imported by then, which is another set with each worker and
# each selection of tests.
providers._get_local_constants = lambda: providers._local_constants

settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "fixed"))
