"""The Spark engine: many events, one piece of history, one Spark job; and conditions."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from archiver.delta import DataFile, StreamSchema
from archiver.executors import Jobs, SparkJobs
from archiver.read import Reader
from archiver.spark import jvm_process
from archiver.time_range import TimeRange
from recall.engines.answers import AnswerRows, order_rows
from recall.engines.attribute_values import find_values
from recall.engines.lru_cache import LruCache
from recall.engines.pending_events import (
    JSON_WRITE_OPTIONS,
    PendingEvent,
    create_event_table,
    create_pending_frame,
    list_pending,
    list_ranges,
)
from recall.engines.spark.statements import SparkStatements
from recall.engines.template import (
    PENDING_TABLE,
    RANGES_TABLE,
    EventPieces,
    EventTables,
    Template,
    row_limit,
    split_by_event,
)
from recall.event_plans import Condition
from recall.query import sql_names
from recall.query.split import SKETCH_KINDS, Split, SplitAggregate
from recall.relation_digests import digest_valid_rows
from recall.requests import Piece, RecallEvent, SqlQuestion, union_ranges
from recall.sandbox import validate_query

# What a query reads of a stream: its name, and the range of event time.
_StreamSpan = tuple[str, TimeRange]
# By event ID and relation: `recall.relation_digests`.
RelationDigests = Mapping[UUID, Mapping[str, int]]


class SparkEngine:
    """Runs queries in a Spark session of its own, one at a time.

    The session starts with the first query. `relations` returns all versions of a relation; of
    those in `unversioned`, rows may change. `require_executors` raises `ExecutorsAway` if nothing
    would run a job.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession],
        reader: Reader,
        relations: Callable[[str], pa.Table],
        require_executors: Callable[[], None] = lambda: None,
        unversioned: Collection[str] = frozenset(),
    ) -> None:
        self._unversioned = frozenset(unversioned)
        self._require_executors = require_executors
        self._statements = SparkStatements(session)
        self._reader = reader
        self._relations = relations
        self._checked_queries: LruCache[str, StructType] = LruCache()

    def session(self) -> SparkSession:
        """The session, also for other work than queries of recalls.

        `cancel` cancels jobs that this thread starts from now on. Raises `ExecutorsAway`.
        """
        self._require_executors()
        return self._statements.attach_thread()

    def jobs(self) -> Jobs:
        """Jobs of the session's application; `cancel` cancels those that this thread starts."""
        return SparkJobs(self.session().sparkContext)

    @property
    def start_seconds(self) -> float:
        """How long the session has taken to start, so far if it is starting; 0 before that."""
        return self._statements.start_seconds

    @property
    def is_spark_running(self) -> bool:
        """Whether Spark runs in this process, in any session."""
        return SparkContext._active_spark_context is not None

    def cancel(self) -> None:
        """Cancel the running query; may be called from any thread."""
        self._statements.interrupt()

    def is_alive(self) -> bool:
        """Whether the JVM answers, or was never needed."""
        gateway = SparkContext._gateway
        if gateway is None:
            return not self._statements.has_started
        process = jvm_process()
        if process is not None and process.poll() is not None:
            return False
        try:
            # The exit of the JVM may not be visible yet: call it.
            gateway.jvm.java.lang.System.nanoTime()
        except (Py4JError, OSError):
            return False
        return True

    def acquire(self, queries: Iterable[tuple[Template, TimeRange]]) -> dict[str, int]:
        """Pin the latest version of the streams that some queries read, each for a range.

        Returns the number of appends of each stream.
        """
        range_by_stream: dict[str, TimeRange] = {}
        for template, time_range in queries:
            for stream, stream_range in _read_spans(template, time_range):
                enclosing = range_by_stream.get(stream, stream_range)
                range_by_stream[stream] = enclosing.enclose(stream_range)
        snapshots = self._reader.acquire(range_by_stream)
        return {stream: snapshot.append_count for stream, snapshot in snapshots.items()}

    def release(self) -> None:
        """Unpin what `acquire` has pinned."""
        self._reader.release()

    def pinned_files(self, stream: str) -> Sequence[DataFile]:
        """The files of a stream in the pinned version, of the pinned range."""
        return self._reader.snapshot(stream).all_files

    def digest_relations(
        self, template: Template, events: Sequence[RecallEvent]
    ) -> RelationDigests:
        """What is valid at each event in those relations of a query whose rows may change."""
        names = template.partial.inputs.relations | template.merge.inputs.relations
        digests: dict[UUID, dict[str, int]] = {}
        for name in sorted(names & self._unversioned):
            numbers = digest_valid_rows(self._relations(name), [event.ts for event in events])
            for event, number in zip(events, numbers, strict=True):
                digests.setdefault(event.eid, {})[name] = number
        return digests

    def list_files(self, template: Template, time_range: TimeRange) -> tuple[str, ...]:
        """The files that a query reads for a range."""
        files: list[str] = []
        for span in _read_spans(template, time_range):
            files += self._reader.local_paths(*span)
        return tuple(files)

    def compute_partial(
        self, template: Template, event_pieces: EventPieces, event_tables: EventTables
    ) -> dict[str, pa.Table]:
        """The partial answers of some events from their pieces, by event ID.

        An event without matching rows has none.
        """
        ranges = union_ranges(map(itemgetter(1), event_pieces))
        time_range = TimeRange(ranges[0].start, ranges[-1].end)
        if template.split.whole is None and not self.list_files(template, time_range):
            return {}
        attributes = template.question.attributes
        self._register_events(list_pending(event_pieces), attributes)
        if template.reads_ranges:
            self._register_events(list_ranges(event_pieces), attributes, RANGES_TABLE)
        events = list(map(itemgetter(0), event_pieces))
        self._register_streams(template, events, time_range, ranges)
        inputs = template.partial.inputs
        self._register_tables(
            inputs.relations, inputs.event_tables, template.question, event_tables
        )
        frame = self._run_query(template.partial.sql).limit(row_limit(len(event_pieces)))
        rows_table: pa.Table = frame.toArrow()
        return split_by_event(template, rows_table, len(event_pieces))

    def _register_streams(
        self,
        template: Template,
        events: Sequence[RecallEvent],
        time_range: TimeRange,
        ranges: Sequence[TimeRange],
    ) -> None:
        """Register the streams of FROM, and those that derived streams read.

        `ranges`: the parts of the range that are read.
        """
        inputs = template.partial.inputs
        for name in inputs.streams:
            columns = self._reader.schema(name).columns
            column_filter = find_values(
                template.partial, name, columns, template.question.attributes, events
            )
            rows = self._reader.read_dataframe(
                self.session(), name, time_range, True, column_filter, ranges
            )
            self._statements.register(f"_in_{name}", rows)
        input_ranges = [_input_range(template, part) for part in ranges]
        for name, input_range in _derived_input_spans(template, time_range):
            rows = self._reader.read_dataframe(
                self.session(), name, input_range, False, {}, input_ranges
            )
            self._statements.register(f"_on_time_{name}", rows)

    def merge(
        self,
        template: Template,
        events: Sequence[RecallEvent],
        values: pa.Table,
        event_tables: EventTables,
    ) -> dict[str, AnswerRows]:
        """The answers of some events from their merged values, by event ID, rows in order."""
        frame = self.session().createDataFrame(values)
        if template.split.has_sketches:
            frame = frame.selectExpr(*_sketch_columns(template.split, values))
        self._statements.register(sql_names.MERGED_TABLE, frame)
        pending = [PendingEvent(event, TimeRange(None, event.ts)) for event in events]
        self._register_events(pending, template.question.attributes)
        inputs = template.merge.inputs
        self._register_tables(
            inputs.relations,
            inputs.event_tables - {sql_names.MERGED_TABLE},
            template.question,
            event_tables,
        )
        return _collect_rows(self._run_query(template.merge.sql))

    def evaluate_condition(
        self,
        condition: Condition,
        recall_event: RecallEvent,
        answers: Mapping[str, tuple[Sequence[Mapping[str, Any]], Mapping[str, str]]],
    ) -> bool | None:
        """Whether the rule's `where` holds for any combination of the rows of its answers.

        `answers`: by recall name, rows and column types. None: all combinations give NULL, because
        there is no history to decide by.
        """
        self._register_events(
            [PendingEvent(recall_event, TimeRange(None, recall_event.ts))], condition.attributes
        )
        joins = []
        for name, (rows, columns) in answers.items():
            frame = create_event_table(self.session(), {str(recall_event.eid): rows}, columns)
            self._statements.register(f"_answer_{name}", frame)
            joins.append(
                f"LEFT JOIN _answer_{name} AS `{name}` ON `{name}`.{sql_names.EID} = "
                f"`{sql_names.EVENT}`.{sql_names.EID}"
            )
        columns_sql = [sql_names.EID, "_event_ts AS ts"]
        columns_sql += [f"`_event_{name}` AS `{name}`" for name in condition.attributes]
        event_sql = f"(SELECT {', '.join(columns_sql)} FROM {PENDING_TABLE}) AS `{sql_names.EVENT}`"
        query = f"SELECT ({condition.where}) AS verdict FROM {event_sql} {' '.join(joins)}"
        verdicts = []
        for row in self._run_query(query).collect():
            if row.verdict is not None:
                verdicts.append(bool(row.verdict))
        return any(verdicts) if verdicts else None

    def warm_up(self, schema: StreamSchema) -> None:
        """Run a typical query: the first real one need not wait for class loading and JIT."""
        question = _typical_question(schema)
        attributes = dict.fromkeys(question.attributes, "")
        event = RecallEvent(UUID(int=0), 1 << 60, {}, attributes)
        self.compute_partial(Template(question), [(event, Piece(0, None, event.ts))], {})

    def _run_query(self, text: str) -> DataFrame:
        """Run a query over views.

        The text comes from the database: it is validated first. Raises `QueryRejected`.
        """
        self._checked_queries.get_or_create(
            text, lambda: validate_query(self.session(), text, internal=True)
        )
        return self.session().sql(text)

    def _register_events(
        self,
        pending: Sequence[PendingEvent],
        attributes: Mapping[str, str],
        table: str = PENDING_TABLE,
    ) -> None:
        frame = create_pending_frame(self.session(), pending, attributes)
        self._statements.register(table, frame)

    def _register_tables(
        self,
        relations: Iterable[str],
        tables: Iterable[str],
        question: SqlQuestion,
        event_tables: EventTables,
    ) -> None:
        """Register relations, and contexts and surroundings (`tables`) of the events."""
        for name in relations:
            self._statements.register(f"_in_{name}", self._relations(name))
        for name in tables:
            rows_by_event = event_tables.get(name, {})
            frame = create_event_table(self.session(), rows_by_event, question.own[name])
            self._statements.register(f"_in_{name}", frame)


def _read_spans(template: Template, time_range: TimeRange) -> list[_StreamSpan]:
    """What a query reads for a range: streams in FROM, then inputs of derived streams."""
    spans: list[_StreamSpan] = []
    for stream in sorted(template.partial.inputs.streams):
        spans.append((stream, time_range))
    spans += _derived_input_spans(template, time_range)
    return spans


def _derived_input_spans(template: Template, time_range: TimeRange) -> Iterator[_StreamSpan]:
    """What derived streams read to compute their rows of a range."""
    for stream in sorted(template.partial.inputs.derived):
        yield stream, _input_range(template, time_range)


def _input_range(template: Template, time_range: TimeRange) -> TimeRange:
    """The range of the rows from which those of derived streams in a range are computed."""
    inputs = template.partial.inputs
    return time_range.shift(start=-inputs.reach, end=max(inputs.lag, 0) + 1)


def _typical_question(schema: StreamSchema) -> SqlQuestion:
    """Counts and means over a stream for a value of its first text column."""
    time = schema.time
    string_columns = []
    aggregates = ["count(*) AS n"]
    for name, type_name in schema.columns.items():
        if name != time and type_name == "string":
            string_columns.append(name)
        elif name != time and type_name == "double":
            aggregates.append(f"avg(s.`{name}`) AS `mean_{name}`")
            aggregates.append(f"stddev(s.`{name}`) AS `sd_{name}`")
    query = f"SELECT {', '.join(aggregates)} FROM `{schema.name}` s"
    attributes: dict[str, str] = {}
    for name in string_columns[:1]:
        attributes[name] = "string"
        query += f" WHERE s.`{name}` = event.`{name}`"
    return SqlQuestion(
        range=None,
        every=1.0,
        order="newest",
        sql=query,
        streams={schema.name: time},
        relations=(),
        derived={},
        attributes=attributes,
        own={},
        columns={},
    )


def _sketch_columns(split: Split, table: pa.Table) -> list[str]:
    """SELECT expressions of merged values; sketches are replaced by their estimates."""
    sketches: dict[str, SplitAggregate] = {}
    for aggregate in split.aggregates:
        if aggregate.kind in SKETCH_KINDS:
            sketches[aggregate.value_column] = aggregate
    columns = []
    for name in table.column_names:
        if name in sketches:
            columns.append(f"{_sketch_estimate_sql(sketches[name])} AS `{name}`")
        else:
            columns.append(f"`{name}`")
    return columns


def _sketch_estimate_sql(aggregate: SplitAggregate) -> str:
    """SQL for the estimate from an array of sketches: NULL or 0 if they are empty."""
    sketches = aggregate.value_column

    def merged(function: str) -> str:
        rest = f"slice({sketches}, 2, size({sketches}))"
        return f"aggregate({rest}, get({sketches}, 0), (a, b) -> {function}(a, b))"

    if aggregate.kind == "approx_count_distinct":
        estimate = f"hll_sketch_estimate({merged('hll_union')})"
        return f"CASE WHEN size({sketches}) = 0 THEN 0L ELSE {estimate} END"
    sketch = merged("kll_sketch_merge_double")
    quantiles = ", ".join(f"{quantile!r}D" for quantile in aggregate.quantiles)
    result_type = "double"
    if aggregate.returns_array:
        quantiles = f"array({quantiles})"
        result_type = "array<double>"
    estimate = f"kll_sketch_get_quantile_double({sketch}, {quantiles})"
    not_empty = f"size({sketches}) > 0 AND kll_sketch_get_n_double({sketch}) > 0"
    return f"CASE WHEN {not_empty} THEN CAST({estimate} AS {aggregate.type or result_type}) END"


def _collect_rows(frame: DataFrame) -> dict[str, AnswerRows]:
    """The rows of a final query by event ID, in order, values as Spark writes them in JSON."""
    columns = [F.col(f"`{name}`") for name in frame.columns if name not in (sql_names.EID, "_row")]
    row_number = F.col("_row") if "_row" in frame.columns else F.lit(0).alias("_row")
    json = F.to_json(F.struct(*columns), JSON_WRITE_OPTIONS).alias("_json")
    rows_by_event: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for row in frame.select(sql_names.EID, row_number, json).collect():
        numbered_row = row["_row"], orjson.loads(row["_json"])
        rows_by_event.setdefault(row[sql_names.EID], []).append(numbered_row)
    return {eid: order_rows(rows) for eid, rows in rows_by_event.items()}
