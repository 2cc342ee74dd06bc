from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from archiver.read.first_time import find_first_time


def test_first_row_on_time_is_found_in_as_few_files_as_possible() -> None:
    read: list[str] = []
    # The times of the rows that were on time; `oldest` may be that of a late row.
    times = {"a": [], "b": [30, 20], "c": [25], "d": [40]}

    def read_on_time(path: str, columns: list[str]) -> pa.Table:
        read.append(path)
        values = pa.array(times[path], pa.int64()).cast(pa.timestamp("us", tz="UTC"))
        return pa.table({"ts": values})

    files = [
        SimpleNamespace(path=path, oldest=oldest, is_foreign=False)
        for path, oldest in (("d", 40), ("c", 15), ("b", 10), ("a", 5))
    ]
    files.append(SimpleNamespace(path="x", oldest=1, is_foreign=True))
    table: Any = SimpleNamespace(
        data_files=lambda _: files, read_on_time=read_on_time, schema=SimpleNamespace(time="ts")
    )
    assert find_first_time(table) == 20
    assert read == ["a", "b", "c"]
