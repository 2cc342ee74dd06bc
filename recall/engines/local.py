"""History read in this process, by DuckDB over the files of the archive: milliseconds where a Spark job needs tenths.

It serves only questions in the part of SQL of `recall.engines.subset`. Where it fails, Spark is asked.
"""

from collections.abc import Mapping, Sequence

import duckdb
import pyarrow as pa
import pyarrow.compute as pc

from archiver.reader import Pinned, Reader
from recall.engines import duck, merging
from recall.engines.answers import Rows
from recall.engines.subset import NotServed, Served, served
from recall.engines.template import PENDING, Ask, Own, Shares, Template, by_event, cut, wanted_only
from recall.lately import Lately
from recall.pending import Waiting, plain_pending
from recall.query.lift import EID
from recall.query.split import VARIANCES
from recall.request import Asked, Piece, whole


class LocalEngine:
    """DuckDB, on one thread, over the newest version of the archive's tables."""

    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._served: Lately[str, Served | NotServed] = Lately()
        self._merges: Lately[str, str | None] = Lately()  # None: Spark is to be asked
        self._duck = duck.connect()
        # Files stay as they are, and many questions read the same ones.
        self._duck.execute("SET parquet_metadata_cache = true")

    def partial(self, template: Template, shares: Shares, own: Own) -> dict[str, pa.Table]:
        """See `recall.engines.spark.SparkEngine.partial`. Raises `NotServed`."""
        return self.together([Ask(template, shares, own)])[0]

    def together(self, asks: Sequence[Ask]) -> list[dict[str, pa.Table]]:
        """What `partial` gives for each of some questions about one stream, of different texts, by one statement that
        scans the stream's rows once. Raises `NotServed` where one of them is not served."""
        askings = [self._asking(ask.template) for ask in asks]
        (stream,) = {stream for ask in asks for stream in ask.template.partial.used.streams}
        pinned = self._reader.pin(stream, *whole(piece for ask in asks for _, piece in ask.shares))
        if not pinned.rows and not pinned.files:
            return [{} for _ in asks]
        scan = self._scan(stream, pinned, asks)
        try:
            numbered = enumerate(zip(asks, askings, strict=True))
            queries = [self._query(number, ask, asking, pinned) for number, (ask, asking) in numbered]
            found = self._found(f'WITH "_in_{stream}" AS ', scan, queries)
            parts = zip(asks, found, strict=True)
            return [by_event(ask.template, _as_spark(ask.template, rows), len(ask.shares)) for ask, rows in parts]
        except duckdb.InterruptException:
            raise
        except (duckdb.Error, pa.ArrowException) as error:
            raise NotServed(str(error)) from error

    def _query(self, number: int, ask: Ask, asking: Served, pinned: Pinned) -> str:
        """One of some questions, over the scan; its events are registered under its number."""
        waiting = [Waiting(asked, low, high) for asked, (_, low, high) in ask.shares]
        self._duck.register(f"_pending_{number}", plain_pending(waiting, ask.template.question.attributes))
        sql = asking.within if _within(pinned, [piece for _, piece in ask.shares]) else asking.cut
        return f'WITH "{PENDING}" AS (FROM "_pending_{number}") {sql} LIMIT {cut(len(ask.shares))}'

    def _scan(self, stream: str, pinned: Pinned, asks: Sequence[Ask]) -> str:
        """The rows of a stream that are of use for some questions."""
        schema = self._reader.schema(stream)
        columns, only = schema.columns, _only(stream, schema.columns, asks)
        if len(asks) == 1:
            # One question's rows are joined with its events as they are read, which looks values up by itself. By what
            # files are clustered, that is too late: whole parts of them need not be read.
            only = {name: values for name, values in only.items() if len(values) == 1 or name in schema.key}
        where = "".join(f' AND "{name}" IN ({_texts(values)})' for name, values in only.items())
        sources = []
        if pinned.files:
            sources.append(f"read_parquet([{_texts(pinned.paths())}], union_by_name = true, hive_partitioning = false)")
        if pinned.rows:
            sources.append("_at_hand")
            self._duck.register("_at_hand", pa.concat_tables(pinned.rows))
        named = ", ".join(f'"{name}"' for name in columns)
        return " UNION ALL ".join(f"SELECT {named} FROM {source} WHERE true{where}" for source in sources)

    def _found(self, named: str, scan: str, queries: Sequence[str]) -> list[pa.Table]:
        """What some queries over one scan find."""
        if len(queries) == 1:
            return [duck.answer(self._duck, f"{named}({scan}) FROM ({queries[0]})")]
        # Each has columns of its own, so that none takes another's type.
        parts = (
            f"SELECT {number} AS \"_query\", COLUMNS('(.*)') AS '{number} \\1' FROM ({query})"
            for number, query in enumerate(queries)
        )
        text = f"{named}MATERIALIZED ({scan}) {' UNION ALL BY NAME '.join(parts)}"
        rows = duck.answer(self._duck, text)
        return [_of_query(rows, number) for number in range(len(queries))]

    def cancel(self) -> None:
        """End the query at hand."""
        self._duck.interrupt()

    def merge(self, template: Template, events: Sequence[Asked], values: pa.Table) -> dict[str, Rows]:
        """See `recall.engines.answers.Merge`."""
        sql = self._merges.of(template.asked, lambda: merging.in_duckdb(template) if merging.served(template) else None)
        found = None if sql is None else merging.merge(self._duck, sql, template, events, values)
        if found is None:
            raise NotServed("the merge")
        return found

    def serves(self, template: Template) -> bool:
        """Whether a question is one of those that this engine answers."""
        try:
            self._asking(template)
            return True
        except NotServed:
            return False

    def megabytes(self, template: Template, shares: Shares) -> float:
        """How much is to be read for some events."""
        (stream,) = template.partial.used.streams
        pinned = self._reader.pin(stream, *whole(piece for _, piece in shares))
        return float(sum(file.bytes for file in pinned.files) + sum(rows.nbytes for rows in pinned.rows)) / 1e6

    def _asking(self, template: Template) -> Served:
        # Types of attributes count too.
        found = self._served.of(template.asked, lambda: self._written(template))
        if isinstance(found, NotServed):
            raise found
        return found

    def _written(self, template: Template) -> Served | NotServed:
        try:
            return served(template, self._columns(template))
        except NotServed as reason:
            return reason

    def _columns(self, template: Template) -> Mapping[str, str]:
        streams = template.partial.used.streams
        return self._reader.schema(next(iter(streams))).columns if len(streams) == 1 else {}


def _only(stream: str, columns: Mapping[str, str], asks: Sequence[Ask]) -> dict[str, list[str]]:
    """Values of text columns that alone can be of use for any of some questions."""
    each = [wanted_only(ask.template, stream, columns, [asked for asked, _ in ask.shares]) for ask in asks]
    shared = set.intersection(*(set(only) for only in each))
    found = {name: sorted({value for only in each for value in only[name]}) for name in sorted(shared)}
    return {name: values for name, values in found.items() if values}


def _of_query(rows: pa.Table, number: int) -> pa.Table:
    """Of the rows of several queries those of one, with its columns."""
    prefix = f"{number} "
    names = [name for name in rows.column_names if name.startswith(prefix)]
    mine = rows.filter(pc.equal(rows["_query"], number)).select(names)
    return mine.rename_columns([name.removeprefix(prefix) for name in names])


def _within(pinned: Pinned, pieces: Sequence[Piece]) -> bool:
    """Whether all rows are sure to lie within each piece, by the times that are known of their files."""
    spans = {(low, high) for _, low, high in pieces}
    return not pinned.rows and all(
        file.exact and (low is None or file.oldest >= low) and file.newest < high
        for file in pinned.held
        for low, high in spans
    )


def _as_spark(template: Template, found: pa.Table) -> pa.Table:
    """The types that Spark gives."""
    kinds = {part: aggregate.kind for aggregate in template.split.aggregates for part in aggregate.parts}
    fields = []
    for field in found.schema:
        kind = field.type
        if pa.types.is_decimal(kind):
            kind = pa.int64()
        elif pa.types.is_floating(kind) and kinds.get(field.name) in ("sum", "avg", *VARIANCES):
            kind = pa.float64()
        elif pa.types.is_timestamp(kind):
            kind = pa.timestamp("us", tz="UTC")
        fields.append(pa.field(field.name, pa.string() if field.name == EID else kind))
    return found.cast(pa.schema(fields))


def _texts(values: Sequence[str]) -> str:
    return ", ".join("'" + value.replace("'", "''") + "'" for value in values)
