"""Whatever a body holds, a protocol reads it or refuses it, and gives rows that are JSON lines.

Bodies are random, or valid ones with bytes changed, cut off, repeated and exchanged. `python -m
tests.fuzzing` looks for more.
"""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzzing.protocols import PROTOCOLS, check_body


def _mutate(body: bytes, seed: int) -> bytes:
    """A body with some of its bytes changed, inserted, deleted or repeated."""
    rng, changed = random.Random(seed), bytearray(body)
    for _ in range(rng.randrange(1, 6)):
        position = rng.randrange(len(changed) + 1)
        length = rng.choice((1, 1, 2, 8, len(changed)))
        match rng.randrange(4):
            case 0:
                changed[position : position + length] = rng.randbytes(length)
            case 1:
                del changed[position : position + length]
            case 2:
                changed[position:position] = changed[position : position + length]
            case _:
                changed[position:position] = rng.choice(
                    (b"\xff" * 9, b"\x00", b"\x80", b"\x0a", b"{", b'"')
                )
    return bytes(changed)


@pytest.mark.parametrize("name", PROTOCOLS)
@given(data=st.data())
def test_body_is_read_or_refused(name: str, data: st.DataObject) -> None:
    valid = PROTOCOLS[name][1]
    mutated = st.integers(0, 1 << 32).map(lambda seed: _mutate(valid, seed))
    check_body(name, data.draw(st.binary(max_size=200) | mutated))


@pytest.mark.parametrize("name", PROTOCOLS)
def test_valid_body_is_read(name: str) -> None:
    read, valid = PROTOCOLS[name]
    result = read(valid)
    assert result if isinstance(result, bytes) else result.lines["all"]
