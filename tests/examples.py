"""How many examples property tests try.

By default each run tries the same examples, with `--hypothesis-profile fast` fewer of them, with
`thorough` many times as many (`make slow`), and with `hunt` more, which are new in each run.
"""

from hypothesis import HealthCheck, settings

_DEFAULT_EXAMPLES = 15
# The profile with so many tries as many examples as `examples` states.
_STATED_EXAMPLES = 50
_MIN_EXAMPLES = 3
_SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.function_scoped_fixture]


def load_profiles() -> None:
    """Register the profiles and load the default one."""
    common = {"deadline": None, "print_blob": True, "suppress_health_check": _SLOW}
    settings.register_profile("same", derandomize=True, max_examples=_DEFAULT_EXAMPLES, **common)
    settings.register_profile("fast", settings.get_profile("same"), max_examples=10)
    settings.register_profile("thorough", settings.get_profile("same"), max_examples=100)
    settings.register_profile("hunt", max_examples=2000, **common)
    settings.load_profile("same")


def examples(count: int) -> settings:
    """Settings of a test with `count` examples, or in proportion to those of the profile."""
    scaled = count * settings().max_examples // _STATED_EXAMPLES
    return settings(max_examples=max(_MIN_EXAMPLES, scaled))
