"""Rows of a table as conditions and the index read them. No I/O."""

from functools import cached_property
from typing import Any

import pyarrow as pa

from moirae.evaluation.index.text_columns import TextColumn
from moirae.evaluation.index.values import Row, RowLayout


class IndexBatch:
    """Some rows of a table. Columns are converted when they are needed."""

    def __init__(self, table: pa.Table, layout: RowLayout) -> None:
        self.table = table
        self.layout = layout
        self._texts: dict[str, TextColumn] = {}

    def __len__(self) -> int:
        return len(self.table)

    def text(self, column: str) -> TextColumn:
        """A column of texts."""
        if column not in self._texts:
            self._texts[column] = TextColumn(self.table[column])
        return self._texts[column]

    @cached_property
    def rows(self) -> list[Row]:
        """The rows by the layout, as it is when they are first read."""
        columns: list[list[Any]] = []
        for column, case in self.layout.slots:
            if self.layout.types[column] == "string":
                columns.append(self.text(column).values(case))
            else:
                columns.append(self.table[column].to_pylist())
        return list(zip(*columns, strict=True)) if columns else [()] * len(self)
