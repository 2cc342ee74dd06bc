"""Digests of the rows of a relation, by which two reads of it are compared. No I/O."""

from collections.abc import Mapping, Sequence

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from archiver.times import Micros
from recall.query.sql_names import VALID_FROM, VALID_TO

_Times = npt.NDArray[np.int64]
_Digests = npt.NDArray[np.uint64]
_POSITIVE = (1 << 63) - 1


def has_read_valid_rows(
    reads: Sequence[tuple[int, int, Mapping[str, int] | None]],
    name: str,
    relation: pa.Table,
    ts: Micros,
) -> bool:
    """Whether all queries of a task about a time have read the rows that are valid at it.

    `reads`: as stored, `tasks.seen`. Not if it is not known.
    """
    digests_read = {counts.get(name) for _, _, counts in reads if counts is not None}
    return digests_read == set(digest_valid_rows(relation, [ts]))


def digest_valid_rows(relation: pa.Table, times: Sequence[Micros]) -> list[int]:
    """Of the rows that are valid at each time, a number of 63 bits; their order does not count.

    The numbers of different versions of DuckDB may differ.
    """
    if not times:
        return []
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("relation", relation)
        columns = connection.execute(
            f"SELECT hash(relation) AS digest, epoch_us({VALID_FROM}) AS valid_from, "
            f"epoch_us({VALID_TO}) AS valid_to FROM relation"
        ).fetchnumpy()
    moments = np.asarray(times, np.int64)
    digests = np.asarray(columns["digest"], np.uint64)
    begun = _sum_until(moments, np.asarray(columns["valid_from"], np.int64), digests)
    ended = _sum_until(moments, np.asarray(columns["valid_to"], np.int64), digests)
    return [int(total) & _POSITIVE for total in begun - ended]


def _sum_until(moments: _Times, times: _Times, digests: _Digests) -> _Digests:
    """The sum, modulo 2^64, of the digests whose time is up to each moment."""
    order = np.argsort(times, kind="stable")
    sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(digests[order], dtype=np.uint64)])
    totals: _Digests = sums[np.searchsorted(times[order], moments, side="right")]
    return totals
