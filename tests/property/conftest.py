"""How properties are tried: the same examples in each run, or, with `--hypothesis-profile hunt`,
ever new and more.
"""

from hypothesis import HealthCheck, settings

_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]

settings.register_profile(
    "same", derandomize=True, deadline=None, print_blob=True, suppress_health_check=_SLOW
)
settings.register_profile(
    "hunt", max_examples=2000, deadline=None, print_blob=True, suppress_health_check=_SLOW
)
settings.load_profile("same")
