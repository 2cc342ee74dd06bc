"""The examples of docs/howto/read-the-archive.md run as they are, in their order."""

import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from archiver.delta.table import StreamTable
from tests.unit.archiver.delta.test_table import SCHEMA, rows

pytestmark = pytest.mark.services

_PAGE = Path(__file__).parents[2] / "docs" / "howto" / "read-the-archive.md"
_EXAMPLE = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)


@pytest.mark.slow
def test_examples_of_the_documentation_run(spark: SparkSession, tmp_path: Path) -> None:
    table = StreamTable(tmp_path, SCHEMA)
    for number in range(3):
        table.append(rows(range(10 * number, 10 * number + 10)), batch=number)
    table.cluster(0)
    table.append(rows(range(30, 40)), batch=4)
    names = {"spark": spark, "table": str(table.data_folder)}
    examples = _EXAMPLE.findall(_PAGE.read_text(encoding="utf-8"))
    assert len(examples) == 6
    for example in examples:
        exec(example, names)
