"""Recalls that summaries of closed chunks answer: the same answers, in one revision."""

from collections.abc import Iterator, Sequence
from typing import Any

import pytest

from archiver.read.reader import Reader
from archiver.storage.base import as_storage
from moirae.config.summaries import DeclaredSummary
from moirae.deployments.registry import RuleRegistry
from moirae.history.summaries import WantedSummaries
from moirae.rules.definition import Definition
from moirae.rules.model import AlertSpec
from moirae.rules.rule_set import Rule
from moirae.runtime import storage
from recall.engines.template import Template
from recall.replay.differences import are_equal
from recall.requests import SqlQuestion
from recall.summaries.builder import SummaryBuilder
from recall.summaries.model import SummaryShape
from recall.summaries.shape import find_use
from recall.summaries.store import SummaryStore
from sql.archive import SummaryGateway
from tests.integration.history import SCHEMA, History, history, run_until

CHUNKS = 40
ROWS = 25
NORM = (
    "SELECT count(*) AS n, sum(h.v) AS total, avg(h.v) AS mean, stddev(h.v) AS sd, min(h.v) AS low,"
    " max(h.v) AS high FROM past h WHERE h.host = event.host"
)


@pytest.fixture
def past() -> Iterator[History]:
    with history(CHUNKS, ROWS) as new_history:
        close_chunks(new_history)
        yield new_history


def close_chunks(past: History) -> None:
    """What maintenance does once the watermark has passed the end of a chunk."""
    past.connection.execute("UPDATE chunks SET state = 'recent' WHERE to_ts IS NOT NULL")


def question(sql: str) -> SqlQuestion:
    return SqlQuestion(None, 0.0, "newest", sql, {"past": "ts"}, (), {}, {"host": "string"}, {}, {})


def shape_of(sql: str) -> SummaryShape:
    return find_use(Template(question(sql)), SCHEMA.query_columns).shape


class Summaries:
    """A store and its builder, as in a recall process of their own."""

    def __init__(
        self, past: History, shapes: Sequence[SummaryShape], is_required: bool = True
    ) -> None:
        root = storage.open_storage(past.settings)
        self.connection = past.connect()
        self.store = SummaryStore(root, Reader(root, [SCHEMA]))
        self.builder = SummaryBuilder(
            self.connection,
            root,
            self.store,
            list_wanted=lambda: dict.fromkeys(shapes, is_required),
            history=0.0,
            settle_time=0.0,
        )

    def build(self) -> None:
        while self.builder.run_once():
            pass

    def levels(self) -> list[int]:
        """How many nodes of each level there are."""
        (summary,) = self.store.summaries
        counts = [0] * 4
        for node in summary.nodes.values():
            counts[node.level] += 1
        return counts


def answers(
    past: History, number: int, sql: str, summaries: Summaries | None, **options: Any
) -> list[dict[str, Any]]:
    """The revisions of a recall."""
    task = past.add_task(number, sql, every=1000.0, **options)
    store = None if summaries is None else summaries.store
    with past.manager(summaries=store) as manager:
        run_until(manager, lambda: past.task(task)["state"] in ("done", "failed"))
    assert past.task(task)["error"] is None
    return past.revisions(task)


def test_norm_is_final_at_the_first_answer(past: History) -> None:
    without = answers(past, 1, NORM, None)
    summaries = Summaries(past, [shape_of(NORM)])
    summaries.build()
    assert summaries.levels() == [CHUNKS, 2, 0, 0]
    (revision,) = answers(past, 2, NORM, summaries)
    (row,), (expected,) = revision["answer"], without[-1]["answer"]
    assert are_equal(row, expected)
    assert (row["n"], row["total"]) == (expected["n"], expected["total"])
    coverage = revision["coverage"]
    assert coverage["summarised"] == CHUNKS and coverage["final"] and not coverage["partial"]
    assert (coverage["read"], coverage["left"]) == (CHUNKS + 1, 0)
    assert len(without) > 1, "without summaries the first answer is not the last"


def test_late_rows_end_the_nodes_of_their_chunk(past: History) -> None:
    summaries = Summaries(past, [shape_of(NORM)])
    summaries.build()
    past.archive_rows([(100, "h0", 1_000)])
    (late,) = answers(past, 1, NORM, summaries)
    assert late["answer"][0]["high"] == 1_000
    assert late["coverage"]["summarised"] == CHUNKS - 1
    summaries.build()
    assert summaries.levels() == [CHUNKS, 2, 0, 0]
    (rebuilt,) = answers(past, 2, NORM, summaries)
    assert rebuilt["coverage"]["summarised"] == CHUNKS
    assert are_equal(rebuilt["answer"], late["answer"])


def test_damaged_summary_is_read_from_rows_and_computed_again(past: History) -> None:
    summaries = Summaries(past, [shape_of(NORM)])
    summaries.build()
    expected = answers(past, 1, NORM, None)[-1]["answer"]
    (table,) = [summary.table for summary in summaries.store.summaries]
    fresh = Summaries(past, [shape_of(NORM)])
    fresh.build()
    path = as_storage(table.storage).data_folder
    for node in table.nodes():
        content = bytearray((path / node.path).read_bytes())
        content[len(content) // 3] ^= 0xFF
        (path / node.path).write_bytes(bytes(content))
    revisions = answers(past, 2, NORM, fresh)
    assert are_equal(revisions[-1]["answer"], expected)


def test_summary_with_nearly_as_many_groups_as_rows_is_given_up(past: History) -> None:
    shape = shape_of("SELECT count(*) AS n FROM past h WHERE h.host = event.host GROUP BY h.v")
    summaries = Summaries(past, [shape], is_required=False)
    summaries.build()
    (summary,) = summaries.store.summaries
    assert summary.loss is not None and "fewer than 8 rows each" in summary.loss
    assert summaries.levels() == [0] * 4
    (row,) = SummaryGateway(past.connection).list_all()
    assert (row.key, row.loss) == (shape.key, summary.loss)


def test_applied_rules_and_streams_say_which_summaries_they_want(past: History) -> None:
    spec = AlertSpec.model_validate(
        {
            "alert": "A",
            "expr": "SELECT host, ts FROM past WHERE v > 90",
            "recall": {
                "norm": {"sql": NORM},
                "top": {"sql": "SELECT max(v) AS m FROM past", "summary": "on"},
                "rows": {"sql": "SELECT v FROM past WHERE host = event.host LIMIT 3"},
            },
        }
    )
    definition = Definition(
        Rule("g", spec),
        {"host": "string"},
        ("host",),
        ("host",),
        {name: {} for name in spec.recall},
    )
    RuleRegistry(past.connection).apply([definition])
    stream = past.settings.streams["past"]
    declared = stream.model_copy(update={"summaries": (DeclaredSummary(key=("host",)),)})
    settings = past.settings.model_copy(update={"streams": {"past": declared}})
    wanted = WantedSummaries(settings, past.connect, [SCHEMA])()
    assert {(shape.dimensions, is_required) for shape, is_required in wanted.items()} == {
        (("`host`",), False),
        ((), True),
        (("`host`",), True),
    }
