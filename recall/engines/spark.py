"""SQL recalls: many events, one piece of history, one Spark job; and what the merged partial
answers say.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any
from uuid import UUID

import orjson
import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from archiver.delta import StreamSchema
from archiver.read import Reader
from archiver.spark import jvm_process
from recall.engines.answers import AnswerRows, order_rows
from recall.engines.lately import LruCache
from recall.engines.pending_events import (
    JSON_WRITE_OPTIONS,
    PendingEvent,
    create_event_table,
    create_pending_frame,
)
from recall.engines.template import (
    PENDING_TABLE,
    EventPieces,
    EventTables,
    Template,
    build_column_filter,
    row_limit,
    split_by_event,
)
from recall.query import sql_names
from recall.query.split import SKETCH_KINDS, Split, SplitAggregate
from recall.requests import RecallEvent, SqlQuestion, enclosing_range
from recall.sandbox import validate_query


class SparkEngine:
    """History through a Spark session of its own, started when it is first needed; one query at a
    time.

    `relations` gives all versions of a relation.
    """

    def __init__(
        self,
        session: Callable[[], SparkSession],
        reader: Reader,
        relations: Callable[[str], pa.Table],
    ) -> None:
        self._start_session = session
        self._reader = reader
        self._relations = relations
        self._session_started = False
        self._checked_queries: LruCache[str, StructType] = LruCache()

    @cached_property
    def _own_session(self) -> SparkSession:
        self._session_started = True
        return self._start_session()

    @property
    def _spark(self) -> SparkSession:
        # What a thread asks from here on is of this group, so that it can be cancelled.
        self._own_session.sparkContext.setJobGroup(str(id(self)), "history", interruptOnCancel=True)
        return self._own_session

    def session(self) -> SparkSession:
        """For a query that this engine knows nothing of."""
        return self._spark

    @property
    def is_spark_running(self) -> bool:
        """Whether Spark runs in this process."""
        return SparkContext._active_spark_context is not None

    def cancel(self) -> None:
        """End the query at hand."""
        if self._session_started:
            self._own_session.sparkContext.cancelJobGroup(str(id(self)))

    def is_alive(self) -> bool:
        """Whether Spark's JVM answers, or was never needed."""
        gateway = SparkContext._gateway
        if gateway is None:
            return not self._session_started
        process = jvm_process()
        if process is not None and process.poll() is not None:
            return False
        try:
            # A JVM that has just ended may not be seen as ended yet.
            gateway.jvm.java.lang.System.nanoTime()
        except (Py4JError, OSError):
            return False
        return True

    def acquire(self, queries: Iterable[tuple[Template, int | None, int]]) -> dict[str, int]:
        """See what was archived since; of each stream that some questions read, each for a span,
        how many appends that is.
        """
        spans: dict[str, tuple[int | None, int]] = {}
        for name, low, high in (span for question in queries for span in _read_spans(*question)):
            since, until = spans.get(name, (low, high))
            spans[name] = (
                None if low is None or since is None else min(low, since),
                max(high, until),
            )
        return {name: pinned.append_count for name, pinned in self._reader.acquire(spans).items()}

    def release(self) -> None:
        """What was looked at is not needed any more."""
        self._reader.release()

    def list_files(self, template: Template, low: int | None, high: int) -> tuple[str, ...]:
        """The files that a question reads for a span of event time."""
        return tuple(
            file
            for span in _read_spans(template, low, high)
            for file in self._reader.local_paths(*span)
        )

    def compute_partial(
        self, template: Template, event_pieces: EventPieces, event_tables: EventTables
    ) -> dict[str, pa.Table]:
        """The partial answer of each event from its piece of history, by eid; an event without rows
        has none.
        """
        used, question = template.partial.inputs, template.question
        waiting = [PendingEvent(asked, low, high) for asked, (_, low, high) in event_pieces]
        low, high = enclosing_range(piece for _, piece in event_pieces)
        if not self.list_files(template, low, high):
            return {}
        self._register_events(waiting, question)
        for name in used.streams:
            only = build_column_filter(
                template,
                name,
                self._reader.schema(name).columns,
                [asked for asked, _ in event_pieces],
            )
            rows = self._reader.read_dataframe(self._spark, name, low, high, True, only)
            rows.createOrReplaceTempView(f"_in_{name}")
        for name in used.derived:
            since = None if low is None else low - used.reach
            rows = self._reader.read_dataframe(
                self._spark, name, since, high + max(used.lag, 0) + 1, False, {}
            )
            rows.createOrReplaceTempView(f"_on_time_{name}")
        self._register_tables(used.relations, used.event_tables, question, event_tables)
        found: pa.Table = (
            self._run_query(template.partial.sql).limit(row_limit(len(event_pieces))).toArrow()
        )
        return split_by_event(template, found, len(event_pieces))

    def merge(
        self,
        template: Template,
        events: Sequence[RecallEvent],
        values: pa.Table,
        event_tables: EventTables,
    ) -> dict[str, AnswerRows]:
        """See `recall.engines.answers.Merge`."""
        frame = self._spark.createDataFrame(values)
        if template.split.has_sketches:
            frame = frame.selectExpr(*_sketch_columns(template.split, values))
        frame.createOrReplaceTempView(sql_names.MERGED_TABLE)
        self._register_events(
            [PendingEvent(asked, None, asked.ts) for asked in events], template.question
        )
        self._register_tables(
            template.merge.inputs.relations,
            template.merge.inputs.event_tables - {sql_names.MERGED_TABLE},
            template.question,
            event_tables,
        )
        return _collect_rows(self._run_query(template.merge.sql))

    def evaluate_condition(
        self,
        question: SqlQuestion,
        recall_event: RecallEvent,
        answers: Mapping[str, tuple[AnswerRows, Mapping[str, str]]],
    ) -> bool | None:
        """Whether the rule's `where` holds for an event: for any of the combinations of its
        answers' rows.

        None: there is no history to judge by.
        """
        self._register_events([PendingEvent(recall_event, None, recall_event.ts)], question)
        names = []
        for name, (rows, columns) in answers.items():
            create_event_table(
                self._spark, {str(recall_event.eid): rows}, columns
            ).createOrReplaceTempView(f"_answer_{name}")
            names.append(
                f"LEFT JOIN _answer_{name} AS `{name}` ON `{name}`.{sql_names.EID} = `{sql_names.EVENT}`.{sql_names.EID}"
            )
        attributes = ", ".join(f"`_event_{name}` AS `{name}`" for name in question.attributes)
        event = f"(SELECT {sql_names.EID}, _event_ts AS ts{', ' if attributes else ''}{attributes} FROM {PENDING_TABLE}) AS `{sql_names.EVENT}`"
        query = f"SELECT ({question.where}) AS verdict FROM {event} {' '.join(names)}"
        found = [row.verdict for row in self._run_query(query).collect()]
        decided = [bool(one) for one in found if one is not None]
        return any(decided) if decided else None

    def _run_query(self, text: str) -> DataFrame:
        """A query over views. What is asked comes from the database: it passes the rule gate first,
        `gate.Refusal`.
        """
        self._checked_queries.get_or_create(
            text, lambda: validate_query(self._spark, text, internal=True)
        )
        return self._spark.sql(text)

    def _register_events(self, waiting: Sequence[PendingEvent], question: SqlQuestion) -> None:
        create_pending_frame(self._spark, waiting, question.attributes).createOrReplaceTempView(
            PENDING_TABLE
        )

    def _register_tables(
        self,
        relations: Iterable[str],
        tables: Iterable[str],
        question: SqlQuestion,
        own: EventTables,
    ) -> None:
        for name in relations:
            self._spark.createDataFrame(self._relations(name)).createOrReplaceTempView(
                f"_in_{name}"
            )
        for name in tables:
            frame = create_event_table(self._spark, own.get(name, {}), question.own[name])
            frame.createOrReplaceTempView(f"_in_{name}")


def _read_spans(
    template: Template, low: int | None, high: int
) -> list[tuple[str, int | None, int]]:
    """What a question reads of each stream for [low, high): of those in FROM, then of those that
    derived ones read.
    """
    used = template.partial.inputs
    spans = [(name, low, high) for name in sorted(used.streams)]
    since = None if low is None else low - used.reach
    return spans + [(name, since, high + max(used.lag, 0) + 1) for name in sorted(used.derived)]


def warm_up_spark(engine: SparkEngine, schema: StreamSchema) -> None:
    """Ask something of a stream, so that the first to ask in earnest does not wait for what is
    loaded and compiled.
    """
    time = schema.time
    columns = {name: kind for name, kind in schema.columns.items() if name != time}
    name = next((n for n, kind in columns.items() if kind == "string"), None)
    where = f" WHERE s.`{name}` = event.`{name}`" if name else ""
    numbers = "".join(
        f", avg(s.`{n}`) AS `mean_{n}`, stddev(s.`{n}`) AS `sd_{n}`"
        for n, kind in columns.items()
        if kind == "double"
    )
    sql = f"SELECT count(*) AS n{numbers} FROM `{schema.name}` s{where}"
    attributes = {name: "string"} if name else {}
    asking = SqlQuestion(None, 1.0, "newest", sql, {schema.name: time}, (), {}, attributes, {}, {})
    asked = RecallEvent(UUID(int=0), 1 << 60, {}, dict.fromkeys(attributes, ""))
    engine.compute_partial(Template(asking), [(asked, (0, None, asked.ts))], {})


def _sketch_columns(split: Split, table: pa.Table) -> list[str]:
    """The columns of merged values, those of sketches as what is read off all of them together."""
    sketches = {a.value_column: a for a in split.aggregates if a.kind in SKETCH_KINDS}
    return [
        f"{_sketch_estimate_sql(sketches[n])} AS `{n}`" if n in sketches else f"`{n}`"
        for n in table.column_names
    ]


def _sketch_estimate_sql(aggregate: SplitAggregate) -> str:
    name = aggregate.value_column
    rest = f"aggregate(slice({name}, 2, size({name})), get({name}, 0), (a, b) -> %s(a, b))"
    if aggregate.kind == "approx_count_distinct":
        return (
            f"CASE WHEN size({name}) = 0 THEN 0L ELSE hll_sketch_estimate({rest % 'hll_union'}) END"
        )
    merged = rest % "kll_sketch_merge_double"
    at = ", ".join(f"{share!r}D" for share in aggregate.quantiles)
    read = f"kll_sketch_get_quantile_double({merged}, {f'array({at})' if aggregate.returns_array else at})"
    kind = aggregate.type or ("array<double>" if aggregate.returns_array else "double")
    return f"CASE WHEN size({name}) > 0 AND kll_sketch_get_n_double({merged}) > 0 THEN CAST({read} AS {kind}) END"


def _collect_rows(frame: DataFrame) -> dict[str, AnswerRows]:
    columns = [name for name in frame.columns if name not in (sql_names.EID, "_row")]
    order = F.col("_row") if "_row" in frame.columns else F.lit(0).alias("_row")
    shown = frame.select(
        sql_names.EID,
        order,
        F.to_json(F.struct(*[F.col(f"`{c}`") for c in columns]), JSON_WRITE_OPTIONS).alias("_json"),
    )
    found: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for row in shown.collect():
        found.setdefault(row[sql_names.EID], []).append((row["_row"], orjson.loads(row["_json"])))
    return {eid: order_rows(rows) for eid, rows in found.items()}
