"""Settings for all tests."""

from __future__ import annotations

from hypothesis import HealthCheck, settings

# Machines are shared: an example that took long once says nothing. Time limits are pytest-timeout's.
settings.register_profile(
    "milepost", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.load_profile("milepost")
