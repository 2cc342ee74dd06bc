"""Arrays that grow. No I/O."""

from typing import Any

import numpy as np
import numpy.typing as npt

_MIN_CAPACITY = 1024


def grow(array: npt.NDArray[Any], size: int, fill: float = 0) -> npt.NDArray[Any]:
    """The array itself if it has `size` elements, else a longer copy, padded with `fill`."""
    if size <= len(array):
        return array
    padding_size = max(size, 2 * len(array), _MIN_CAPACITY) - len(array)
    if array.dtype.names is not None:
        padding = np.zeros(padding_size, array.dtype)
    else:
        padding = np.full(padding_size, fill, array.dtype)
    return np.concatenate([array, padding])
