"""What the fields of Sigma rules are in a stream: columns or expressions. No I/O."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from sqlglot import exp

from moirae.errors import NotImported
from moirae.sigma.model import FieldExpression, LogSource, SigmaMap
from moirae.sigma.sql_text import quote_name
from recall.query import Unsupported, parse

NUMBERS = frozenset({"int", "bigint", "float", "double"})
TIMES = frozenset({"date", "timestamp"})


class MappedField(NamedTuple):
    """A field of a Sigma rule as SQL, and its type in Spark."""

    sql: str
    type: str

    @property
    def text_sql(self) -> str:
        """Its text. Raises `NotImported`."""
        if self.type == "string":
            return self.sql
        if self.type in TIMES:
            raise NotImported("type", f"{self.sql} is a {self.type}, which is compared with text")
        return f"CAST({self.sql} AS STRING)"


class LogSourceKey(NamedTuple):
    """The log source of a Sigma rule."""

    category: str | None
    product: str | None
    service: str | None

    def __str__(self) -> str:
        return "/".join(part for part in (self.product, self.category, self.service) if part)


class StreamFields:
    """The fields that rules of one log source find in a stream.

    `missing`: those that were looked up and are neither mapped nor columns.
    """

    def __init__(
        self,
        columns: Mapping[str, str],
        mapped: Sequence[Mapping[str, str | FieldExpression]],
        keywords: Sequence[str],
    ) -> None:
        """`columns`: name -> type; `mapped`: the first that has a field is used."""
        self._columns = columns
        self._mapped = mapped
        self.keywords = [_find_column(columns, name) or MappedField(name, "") for name in keywords]
        self.missing: list[str] = []

    def resolve(self, field: str) -> MappedField:
        """A field; one without a column is noted in `missing`, and is NULL."""
        for fields in self._mapped:
            target = fields.get(field)
            if target is not None:
                return _map_field(self._columns, target)
        column = _find_column(self._columns, field)
        if column is None:
            if field not in self.missing:
                self.missing.append(field)
            return MappedField("NULL", "string")
        return column


class StreamLayout:
    """The columns of a stream, with the map of a collection."""

    def __init__(self, stream: str, columns: Mapping[str, str], sigma_map: SigmaMap) -> None:
        self.stream = stream
        self.columns = columns
        self.map = sigma_map

    def find_log_source(self, key: LogSourceKey) -> LogSource:
        """The entry of the map for the log source of a rule. Raises `NotImported`."""
        if not self.map.logsources:
            return LogSource()
        for entry in self.map.logsources:
            expected = (entry.category, entry.product, entry.service)
            if all(
                name is None or name.lower() == (value or "").lower()
                for name, value in zip(expected, key, strict=True)
            ):
                return entry
        raise NotImported("log source", f"the log source {key} is not in the map")

    def fields_of(self, entry: LogSource) -> StreamFields:
        """The fields of rules of a log source."""
        keywords = self.map.keywords if entry.keywords is None else entry.keywords
        return StreamFields(self.columns, (entry.fields, self.map.fields), keywords)

    def check(self) -> list[tuple[tuple[str | int, ...], str]]:
        """What the map says and the stream does not have: path in the map, message."""
        problems: list[tuple[tuple[str | int, ...], str]] = []
        sections: list[tuple[tuple[str | int, ...], SigmaMap | LogSource]] = [((), self.map)]
        for index, entry in enumerate(self.map.logsources):
            sections.append((("logsources", index), entry))
        for path, section in sections:
            for field, target in section.fields.items():
                message = self._check_target(target)
                if message:
                    problems.append(((*path, "fields", field), message))
            for index, name in enumerate(section.keywords or ()):
                column = _find_column(self.columns, name)
                if column is None or column.type != "string":
                    message = f"stream {self.stream} has no column {name} of text"
                    problems.append(((*path, "keywords", index), message))
            where = section.where if isinstance(section, LogSource) else None
            if where is not None and (message := self._check_expression(where)):
                problems.append(((*path, "where"), message))
        for index, name in enumerate(self.map.key or ()):
            if _find_column(self.columns, name) is None:
                message = f"stream {self.stream} has no column {name}"
                problems.append((("key", index), message))
        return problems

    def find_column(self, name: str) -> MappedField | None:
        """A column by its name in any case."""
        return _find_column(self.columns, name)

    def _check_target(self, target: str | FieldExpression) -> str:
        if isinstance(target, FieldExpression):
            return self._check_expression(target.sql)
        if _find_column(self.columns, target) is None:
            return f"stream {self.stream} has no column {target}; write an expression as sql: …"
        return ""

    def _check_expression(self, sql: str) -> str:
        try:
            query = parse(f"SELECT ({sql}) FROM {self.stream}")
        except Unsupported as error:
            return str(error)
        for column in query.find_all(exp.Column):
            if column.table or _find_column(self.columns, column.name) is None:
                return f"stream {self.stream} has no column {column.sql(dialect='spark')}"
        return ""


def _map_field(columns: Mapping[str, str], target: str | FieldExpression) -> MappedField:
    if isinstance(target, FieldExpression):
        return MappedField(f"({target.sql})", target.type)
    column = _find_column(columns, target)
    if column is None:
        raise NotImported("field", f"column {target} is not declared")
    return column


def _find_column(columns: Mapping[str, str], name: str) -> MappedField | None:
    for column, column_type in columns.items():
        if column.lower() == name.lower():
            return MappedField(quote_name(column), column_type)
    return None
