"""Profiles of property tests.

By default each run tries the same examples, with `--hypothesis-profile fast` fewer of them, and
with `--hypothesis-profile hunt` more, which are new in each run.
"""

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]

settings.register_profile(
    "same", derandomize=True, deadline=None, print_blob=True, suppress_health_check=_SLOW
)
settings.register_profile("fast", settings.get_profile("same"), max_examples=10)
settings.register_profile(
    "hunt", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=_SLOW
)
settings.load_profile("same")
