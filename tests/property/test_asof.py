"""The archive as it once was: the same rows, whatever came since and whatever became of their files."""

import shutil
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from archiver.asof import AsOf, NotTold
from archiver.log import Superseded
from archiver.reader import Lending, Reader
from archiver.sweep import Sweeper
from archiver.table import StreamTable
from tests.property.test_present import SCHEMA, made, seen

STEPS = st.lists(
    st.sampled_from(["append", "append", "late", "close", "cluster", "sweep", "open", "look"]), max_size=40
)


@settings(max_examples=25)
@given(STEPS)
def test_what_was_seen_once_is_seen_again(steps: list[str]) -> None:
    """Each look is kept with its number of appends, and taken again at the end."""
    root = Path(tempfile.mkdtemp())
    try:
        table, sweeper, reader = StreamTable(root, SCHEMA), Sweeper(0.0), Reader(root, [SCHEMA])
        looks: list[tuple[int, Counter[int]]] = []
        chunk = rows = 0
        for step in steps:
            if step in ("append", "late"):
                table.append(made(rows, 7, chunk if step == "append" else 0, rows), 0)
                rows += 7
            elif step == "close":
                chunk += 1
            elif step == "cluster":
                StreamTable(root, SCHEMA).cluster(0)
            elif step == "sweep":
                sweeper.sweep([table], 0.0)
            elif step == "open":
                DeltaTable(table.path).create_checkpoint()
                table = StreamTable(root, SCHEMA)
            else:
                looks.append((reader.look({"s": (None, None)})["s"].appends, seen(reader, None, None)))
        then = AsOf(root, [SCHEMA])
        for appends, found in looks:
            then.appends = {"s": appends}
            assert seen(then, None, None) == found
        assert reader.look({"s": (None, None)})["s"].appends == table.appends
    finally:
        shutil.rmtree(root)


def test_a_query_sees_one_version_however_often_it_asks(tmp_path: Path) -> None:
    """Another thread sees what comes in meanwhile."""
    table, reader = StreamTable(tmp_path, SCHEMA), Reader(tmp_path, [SCHEMA])
    query = Lending(reader)
    table.append(made(0, 7, 0, 0), 0)
    before, files = query.look({"s": (None, None)})["s"], query.files("s", None, None)
    table.append(made(7, 7, 0, 7), 0)
    table.cluster(0)
    reader.refresh()
    assert (query.pin("s", None, None), query.files("s", None, None)) == (before, files)
    assert query.files("s", None, -1) == []
    query.look_away()
    assert query.pin("s", None, None).appends == before.appends + 1 and query.files("s", None, None) != files


def test_rows_that_another_program_has_rewritten_are_not_taken_for_those_of_then(tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    for first in (0, 7):
        table.append(made(first, 7, 0, first), 0)
    DeltaTable(table.path).optimize.compact()
    then = AsOf(tmp_path, [SCHEMA])
    then.appends = {"s": 1}
    with pytest.raises(NotTold, match="another program"):
        then.pin("s", None, None)


def test_appends_of_two_who_take_the_same_number_are_not_mixed_up(tmp_path: Path) -> None:
    """One of two who append at once is refused: its rows would count as those of the other."""
    first, second = StreamTable(tmp_path, SCHEMA), StreamTable(tmp_path, SCHEMA)
    commit = second._log.commit

    def after_another(*values: Any, **named: Any) -> None:
        first.append(made(0, 7, 0, 0), 0)
        commit(*values, **named)

    with patch.object(second._log, "commit", after_another), pytest.raises(Superseded):
        second.append(made(7, 7, 0, 7), 0)
    assert pa.concat_tables([pq.read_table(path) for path in first.files()]).num_rows == 7
