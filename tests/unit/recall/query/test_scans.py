"""The limit on the number of tables that a query reads."""

import pytest

from recall.query.parsing import Unsupported
from recall.query.scans import check_table_count


def test_derived_streams_that_double_are_counted_without_expanding_them() -> None:
    derived = {"d0": "SELECT ts FROM cpu"}
    for number in range(1, 30):
        read = f"SELECT ts FROM d{number - 1}"
        derived[f"d{number}"] = f"{read} UNION ALL {read}"
    check_table_count("SELECT ts FROM d6", derived)
    with pytest.raises(Unsupported, match=r"reads 128 tables after expanding .* the limit is 64"):
        check_table_count("SELECT ts FROM d7", derived)
    with pytest.raises(Unsupported, match="reads 536,870,912 tables"):
        check_table_count("SELECT ts FROM d29", derived)


def test_common_tables_are_counted_once_for_each_use() -> None:
    uses = " UNION ALL ".join(["SELECT ts FROM c"] * 65)
    with pytest.raises(Unsupported, match="reads 65 tables"):
        check_table_count(f"WITH c AS (SELECT ts FROM cpu) {uses}", {})
