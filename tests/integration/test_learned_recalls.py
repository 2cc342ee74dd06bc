"""Recalls by the measure `learned`: a model is pinned, answers name resolutions, and are replayed."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from psycopg.types.json import Jsonb

from archiver.times import to_micros
from recall.corpora import Corpora
from recall.errors import ModelExpired
from recall.learned_models import LearnedModels
from recall.learning import BuiltModel, TrainingEvent, build_model
from recall.learning.stored_model import MODEL_FORMAT
from recall.ledger.tasks import Ledger
from recall.replay.outcome import ReplayedAnswer, replay
from recall.replay.similar_answers import SimilarReplayer
from recall.requests import RecallEvent, RecallRequest, SimilarQuestion, task_id
from sql.similarity import LearnedModelGateway
from tests.integration.history import START, History, history, run_until

_CHUNKS, _ROWS = 4, 40
_COUNT = 120
_TAGS = ("disk", "cpu", "net")
_SECOND = 1_000_000  # microseconds


def _tag(number: int) -> str:
    return _TAGS[number * number % 7 % 3]


def _terms(number: int) -> dict[str, int]:
    """The message tells the tag; the many users tell nothing."""
    return {f"msg={_tag(number)}": 1, f"user=u{number % 11}": 1, f"room=r{number % 5}": 1}


@pytest.fixture(scope="module")
def past() -> Iterator[History]:
    with history(chunks=_CHUNKS, rows=_ROWS) as new_history:
        for number in range(1, _COUNT + 1):
            row = {term.split("=")[0]: term.split("=")[1] for term in _terms(number)}
            new_history.connection.execute(
                "INSERT INTO contexts (rule, version, eid, ts, contexts, surroundings, settled, "
                "corpus) VALUES ('g/r', '1', %s, %s, %s, '{}', true, %s)",
                (
                    UUID(int=number),
                    START + timedelta(seconds=number),
                    Jsonb({"own": [row]}),
                    number,
                ),
            )
        yield new_history


def _store_model(past: History, count: int) -> BuiltModel:
    """A model of the first `count` events, all of which are resolved."""
    events = []
    for number in range(1, count + 1):
        ts = to_micros(START + timedelta(seconds=number))
        events.append(TrainingEvent(str(UUID(int=number)), ts, _terms(number), f"n{number % 3}"))
    tags = {event.event_id: _tag(number) for number, event in enumerate(events, start=1)}
    built = build_model(events, tags, _SECOND)
    assert built is not None
    LearnedModelGateway(past.connection).add(
        ("g/r", "1", "similar"),
        learned_until=built.learned_until,
        resolutions=built.resolutions,
        arrays=built.model.to_bytes(),
        format=MODEL_FORMAT,
    )
    return built


def _answer(past: History, number: int) -> tuple[UUID, dict[str, Any]]:
    """The task of an event by its number, and its last revision."""
    question = SimilarQuestion(
        None, 0.0, "newest", contexts=("own",), k=10, measure="learned", gap=_SECOND
    )
    ts = to_micros(START + timedelta(seconds=number))
    event = RecallEvent(UUID(int=number), ts, {"host": f"n{number % 3}"}, {})
    Ledger(past.connection).add([RecallRequest("g/r", "1", "similar", question, event, 0)])
    task = task_id("g/r", "1", "similar", event.eid)
    with past.manager() as manager:
        run_until(manager, lambda: past.task(task)["state"] == "done")
    return task, past.revisions(task)[-1]


def _replay(past: History, task: UUID) -> ReplayedAnswer:
    replayer = SimilarReplayer(past.connection, Corpora(past.connection, Path("/nowhere")))
    [answer] = replay(past.connection, task, {"similar": replayer})
    return answer


def test_answer_names_the_probable_resolution_and_is_replayed_until_its_model_expires(
    past: History,
) -> None:
    _store_model(past, _COUNT - 10)
    task, revision = _answer(past, _COUNT)
    model = past.task(task)["model"]
    assert model is not None
    hits = revision["answer"]
    assert len(hits) == 10
    assert all(hit["tag"] == _tag(_COUNT) for hit in hits)
    assert hits[0]["tag_terms"][0][0] == f"msg={_tag(_COUNT)}"
    tags = revision["forecast"]["tags"]
    assert tags[0][0] == _tag(_COUNT) and tags[0][1] > 0.5
    assert revision["comparable"] == pytest.approx(1 - revision["forecast"]["new_tag"])
    assert revision["forecast"]["frequencies"]["tags"][0][1] < tags[0][1]
    (shares,) = past.connection.execute(
        "SELECT shares FROM shown_forecasts WHERE recall = 'similar' AND eid = %s",
        (UUID(int=_COUNT),),
    ).fetchone() or (None,)
    assert shares["tags"][_tag(_COUNT)][0] == pytest.approx(tags[0][1])
    assert not shares["withheld"]
    assert _replay(past, task).equal

    # A later model is not used by an answer that has begun, nor by its repetition.
    _store_model(past, _COUNT - 1)
    assert _replay(past, task).equal

    past.connection.execute("DELETE FROM learned_models WHERE id = %s", (model,))
    with pytest.raises(ModelExpired):
        LearnedModels(past.connection).load(model)
    replayed = _replay(past, task)
    assert replayed.equal is None
    assert replayed.why is not None and "expired" in replayed.why


def test_past_event_uses_no_model_that_has_learned_from_later_events(past: History) -> None:
    past.connection.execute("TRUNCATE learned_models")
    early = _store_model(past, 60)
    _store_model(past, 100)
    task, revision = _answer(past, 30)
    assert past.task(task)["model"] is None
    assert revision["forecast"] is None
    assert "tag" not in revision["answer"][0]
    task, revision = _answer(past, 90)
    first_model = past.connection.execute("SELECT min(id) FROM learned_models").fetchone()
    assert first_model == (past.task(task)["model"],)
    assert early.learned_until < to_micros(START + timedelta(seconds=90))
    assert revision["forecast"] is not None


def test_superseded_models_are_deleted_unless_an_answer_names_them(past: History) -> None:
    past.connection.execute("TRUNCATE learned_models")
    _store_model(past, 60)
    task, _ = _answer(past, 80)
    _store_model(past, 70)
    _store_model(past, 71)
    past.connection.execute("UPDATE learned_models SET built_at = built_at - interval '1 hour'")
    LearnedModelGateway(past.connection).delete_superseded("g/r", "1", "similar")
    rows = past.connection.execute("SELECT id FROM learned_models ORDER BY id").fetchall()
    assert len(rows) == 2
    assert rows[0][0] == past.task(task)["model"]
