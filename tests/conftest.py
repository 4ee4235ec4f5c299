"""Hypothesis profiles: small while working, larger at the gate, largest at night."""

import os

from hypothesis import HealthCheck, settings

_quiet = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("dev", max_examples=50, deadline=None, suppress_health_check=_quiet)
settings.register_profile(
    "ci", max_examples=100, deadline=None, derandomize=True, suppress_health_check=_quiet
)
settings.register_profile("nightly", max_examples=2000, deadline=None, suppress_health_check=_quiet)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci" if os.environ.get("CI") else "dev"))
