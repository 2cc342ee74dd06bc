"""SQL recalls: many events, one piece of history, one Spark job; and what the merged partial answers say."""

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

from archiver.engine.session import jvm
from archiver.reader import Reader
from archiver.schema import StreamSchema
from recall import gate
from recall.engines.answers import Rows, in_order
from recall.engines.template import PENDING, Own, Shares, Template, by_event, cut, wanted_only
from recall.lately import Lately
from recall.pending import WRITTEN, Waiting, own_table, pending
from recall.query.lift import EID
from recall.query.parts import EVENT
from recall.query.split import MERGED, SKETCHES, Aggregate, Split
from recall.request import Asked, SqlQuestion, whole


class SparkEngine:
    """History through a Spark session of its own, started when it is first needed; one query at a time.

    `relations` gives all versions of a relation.
    """

    def __init__(
        self, session: Callable[[], SparkSession], reader: Reader, relations: Callable[[str], pa.Table]
    ) -> None:
        self._session = session
        self._reader = reader
        self._relations = relations
        self._started = False
        self._passed: Lately[str, StructType] = Lately()

    @cached_property
    def _mine(self) -> SparkSession:
        self._started = True
        return self._session()

    @property
    def _spark(self) -> SparkSession:
        # What a thread asks from here on is of this group, so that it can be cancelled.
        self._mine.sparkContext.setJobGroup(str(id(self)), "history", interruptOnCancel=True)
        return self._mine

    def session(self) -> SparkSession:
        """For a query that this engine knows nothing of."""
        return self._spark

    @property
    def started(self) -> bool:
        """Whether Spark runs in this process."""
        return SparkContext._active_spark_context is not None

    def cancel(self) -> None:
        """End the query at hand."""
        if self._started:
            self._mine.sparkContext.cancelJobGroup(str(id(self)))

    def alive(self) -> bool:
        """Whether Spark's JVM answers, or was never needed."""
        gateway = SparkContext._gateway
        if gateway is None:
            return not self._started
        process = jvm()
        if process is not None and process.poll() is not None:
            return False
        try:
            # A JVM that has just ended may not be seen as ended yet.
            gateway.jvm.java.lang.System.nanoTime()
        except (Py4JError, OSError):
            return False
        return True

    def look(self, questions: Iterable[tuple[Template, int | None, int]]) -> dict[str, int]:
        """See what was archived since; of each stream that some questions read, each for a span, how many appends that
        is."""
        spans: dict[str, tuple[int | None, int]] = {}
        for name, low, high in (span for question in questions for span in _spans(*question)):
            since, until = spans.get(name, (low, high))
            spans[name] = None if low is None or since is None else min(low, since), max(high, until)
        return {name: pinned.appends for name, pinned in self._reader.look(spans).items()}

    def look_away(self) -> None:
        """What was looked at is not needed any more."""
        self._reader.look_away()

    def files(self, template: Template, low: int | None, high: int) -> tuple[str, ...]:
        """The files that a question reads for a span of event time."""
        return tuple(file for span in _spans(template, low, high) for file in self._reader.files(*span))

    def partial(self, template: Template, shares: Shares, own: Own) -> dict[str, pa.Table]:
        """The partial answer of each event from its piece of history, by eid; an event without rows has none."""
        used, question = template.partial.used, template.question
        waiting = [Waiting(asked, low, high) for asked, (_, low, high) in shares]
        low, high = whole(piece for _, piece in shares)
        if not self.files(template, low, high):
            return {}
        self._pending(waiting, question)
        for name in used.streams:
            only = wanted_only(template, name, self._reader.schema(name).columns, [asked for asked, _ in shares])
            rows = self._reader.rows(self._spark, name, low, high, True, only)
            rows.createOrReplaceTempView(f"_in_{name}")
        for name in used.derived:
            since = None if low is None else low - used.reach
            rows = self._reader.rows(self._spark, name, since, high + max(used.lag, 0) + 1, False, {})
            rows.createOrReplaceTempView(f"_on_time_{name}")
        self._beside(used.relations, used.own, question, own)
        found: pa.Table = self._query(template.partial.sql).limit(cut(len(shares))).toArrow()
        return by_event(template, found, len(shares))

    def merge(self, template: Template, events: Sequence[Asked], values: pa.Table, own: Own) -> dict[str, Rows]:
        """See `recall.engines.answers.Merge`."""
        frame = self._spark.createDataFrame(values)
        if template.split.sketched:
            frame = frame.selectExpr(*_read_off(template.split, values))
        frame.createOrReplaceTempView(MERGED)
        self._pending([Waiting(asked, None, asked.ts) for asked in events], template.question)
        self._beside(template.merge.used.relations, template.merge.used.own - {MERGED}, template.question, own)
        return _rows(self._query(template.merge.sql))

    def judge(
        self, question: SqlQuestion, asked: Asked, answers: Mapping[str, tuple[Rows, Mapping[str, str]]]
    ) -> bool | None:
        """Whether the rule's `where` holds for an event: for any of the combinations of its answers' rows.

        None: there is no history to judge by.
        """
        self._pending([Waiting(asked, None, asked.ts)], question)
        names = []
        for name, (rows, columns) in answers.items():
            own_table(self._spark, {str(asked.eid): rows}, columns).createOrReplaceTempView(f"_answer_{name}")
            names.append(f"LEFT JOIN _answer_{name} AS `{name}` ON `{name}`.{EID} = `{EVENT}`.{EID}")
        attributes = ", ".join(f"`_event_{name}` AS `{name}`" for name in question.attributes)
        event = f"(SELECT {EID}, _event_ts AS ts{', ' if attributes else ''}{attributes} FROM {PENDING}) AS `{EVENT}`"
        query = f"SELECT ({question.where}) AS verdict FROM {event} {' '.join(names)}"
        found = [row.verdict for row in self._query(query).collect()]
        decided = [bool(one) for one in found if one is not None]
        return any(decided) if decided else None

    def _query(self, text: str) -> DataFrame:
        """A query over views. What is asked comes from the database: it passes the rule gate first, `gate.Refusal`."""
        self._passed.of(text, lambda: gate.judge(self._spark, text, own=True))
        return self._spark.sql(text)

    def _pending(self, waiting: Sequence[Waiting], question: SqlQuestion) -> None:
        pending(self._spark, waiting, question.attributes).createOrReplaceTempView(PENDING)

    def _beside(self, relations: Iterable[str], tables: Iterable[str], question: SqlQuestion, own: Own) -> None:
        for name in relations:
            self._spark.createDataFrame(self._relations(name)).createOrReplaceTempView(f"_in_{name}")
        for name in tables:
            frame = own_table(self._spark, own.get(name, {}), question.own[name])
            frame.createOrReplaceTempView(f"_in_{name}")


def _spans(template: Template, low: int | None, high: int) -> list[tuple[str, int | None, int]]:
    """What a question reads of each stream for [low, high): of those in FROM, then of those that derived ones read."""
    used = template.partial.used
    spans = [(name, low, high) for name in sorted(used.streams)]
    since = None if low is None else low - used.reach
    return spans + [(name, since, high + max(used.lag, 0) + 1) for name in sorted(used.derived)]


def warm_up(history: SparkEngine, schema: StreamSchema) -> None:
    """Ask something of a stream, so that the first to ask in earnest does not wait for what is loaded and compiled."""
    time = schema.time
    columns = {name: kind for name, kind in schema.columns.items() if name != time}
    name = next((n for n, kind in columns.items() if kind == "string"), None)
    where = f" WHERE s.`{name}` = event.`{name}`" if name else ""
    numbers = "".join(
        f", avg(s.`{n}`) AS `mean_{n}`, stddev(s.`{n}`) AS `sd_{n}`" for n, kind in columns.items() if kind == "double"
    )
    sql = f"SELECT count(*) AS n{numbers} FROM `{schema.name}` s{where}"
    attributes = {name: "string"} if name else {}
    asking = SqlQuestion(None, 1.0, "newest", sql, {schema.name: time}, (), {}, attributes, {}, {})
    asked = Asked(UUID(int=0), 1 << 60, {}, dict.fromkeys(attributes, ""))
    history.partial(Template(asking), [(asked, (0, None, asked.ts))], {})


def _read_off(split: Split, table: pa.Table) -> list[str]:
    """The columns of merged values, those of sketches as what is read off all of them together."""
    sketches = {a.value: a for a in split.aggregates if a.kind in SKETCHES}
    return [f"{_estimate(sketches[n])} AS `{n}`" if n in sketches else f"`{n}`" for n in table.column_names]


def _estimate(aggregate: Aggregate) -> str:
    name = aggregate.value
    rest = f"aggregate(slice({name}, 2, size({name})), get({name}, 0), (a, b) -> %s(a, b))"
    if aggregate.kind == "approx_count_distinct":
        return f"CASE WHEN size({name}) = 0 THEN 0L ELSE hll_sketch_estimate({rest % 'hll_union'}) END"
    merged = rest % "kll_sketch_merge_double"
    at = ", ".join(f"{share!r}D" for share in aggregate.at)
    read = f"kll_sketch_get_quantile_double({merged}, {f'array({at})' if aggregate.several else at})"
    kind = aggregate.type or ("array<double>" if aggregate.several else "double")
    return f"CASE WHEN size({name}) > 0 AND kll_sketch_get_n_double({merged}) > 0 THEN CAST({read} AS {kind}) END"


def _rows(frame: DataFrame) -> dict[str, Rows]:
    columns = [name for name in frame.columns if name not in (EID, "_row")]
    order = F.col("_row") if "_row" in frame.columns else F.lit(0).alias("_row")
    shown = frame.select(EID, order, F.to_json(F.struct(*[F.col(f"`{c}`") for c in columns]), WRITTEN).alias("_json"))
    found: dict[str, list[tuple[int, dict[str, Any]]]] = {}
    for row in shown.collect():
        found.setdefault(row[EID], []).append((row["_row"], orjson.loads(row["_json"])))
    return {eid: in_order(rows) for eid, rows in found.items()}
