"""Decoded rows and refused records, and the limits of records."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

RefusalReason = Literal["malformed", "quarantined", "conflict", "expired"]

# Longer records are refused, so that one can neither stall the stream nor exhaust the memory.
MAX_LINE_BYTES = 1 << 20  # bytes
MAX_RECORD_LINES = 10_000

MAX_DETAIL_LENGTH = 200  # characters of an error message


@dataclass(frozen=True)
class RefusedLine:
    """A record that is not archived: its line number in the unit, the reason, and its bytes."""

    line: int
    reason: RefusalReason
    detail: str
    raw: bytes


@dataclass(frozen=True)
class DecodedRows:
    """Typed rows of a batch of records, and the records that were refused.

    `table`: the declared columns and `_extra`, the undeclared fields as a JSON object.
    `line_numbers` and `raw`: the number and the bytes of each row's record.
    """

    table: pa.Table
    line_numbers: npt.NDArray[np.int64]
    raw: Sequence[bytes]
    refused_lines: list[RefusedLine]
