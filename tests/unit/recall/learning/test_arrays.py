"""Arrays that grow."""

import numpy as np

from recall.learning.arrays import grow


def test_array_that_is_long_enough_is_returned_itself() -> None:
    array = np.arange(3)
    assert grow(array, 3) is array


def test_longer_copy_is_padded() -> None:
    grown = grow(np.ones(2), 5000, fill=-1)
    assert len(grown) >= 5000
    assert grown[:3].tolist() == [1, 1, -1]
