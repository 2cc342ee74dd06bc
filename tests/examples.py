"""How many examples a property test tries."""

from hypothesis import settings

_DEFAULT_EXAMPLES = 100  # of the profile without which a test has the number that it names
_MIN_EXAMPLES = 3


def examples(count: int) -> settings:
    """Settings of a test with `count` examples; other profiles change it in proportion."""
    scaled = count * settings().max_examples // _DEFAULT_EXAMPLES
    return settings(max_examples=max(_MIN_EXAMPLES, scaled), deadline=None)
