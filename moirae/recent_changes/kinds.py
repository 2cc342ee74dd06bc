"""Which changes are of one kind. No I/O."""

import re
from functools import lru_cache

# A hash or a number with its points and dashes: what differs from one deployment to the next.
_VARYING = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{7,64}\b|\d+(?:[.\-_:]\d+)*")


@lru_cache(10_000)
def kind_of(what: str) -> str:
    """The text of a change without versions, numbers and hashes: those of one kind are equal.

    >>> kind_of("web 1.20.3 (9f86d081)")
    'web # (#)'
    """
    return _VARYING.sub("#", what)
