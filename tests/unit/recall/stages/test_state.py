"""The rows of an open event, and which stages are due."""

from recall.event_plans import EventPlan, Stage
from recall.revisions.changes import RowChange
from recall.stages.state import EventState, carry_key, changed_recalls, is_due, may_end

LIVE = Stage(
    name="joined",
    sql="",
    inputs={"norm": {}},
    columns={},
    row_key=None,
    streams={"ping": "ts"},
    delay=10,
)
PLAN = EventPlan(recalls=("norm", "other"), stages=(LIVE,))


def test_revisions_are_applied_in_order() -> None:
    state = EventState()
    state.apply("norm", 3, RowChange("insert", "a", {"n": 1}))
    state.apply("norm", 5, RowChange("update", "a", {"n": 2}, {"n": 1}))
    assert state.rows_of("norm") == [{"n": 2}]
    assert (state.sequences, state.row_count) == ({"norm": 5}, 1)


def test_recalls_with_later_revisions_have_changed() -> None:
    state = EventState(sequences={"norm": 5, "other": 2})
    assert changed_recalls(PLAN, state, {"norm": 4, "other": 2}) == {"norm"}
    assert changed_recalls(PLAN, state, {}) == {"norm", "other"}


def test_stage_is_due_for_its_inputs_only() -> None:
    assert is_due(LIVE, {"norm"}, ())
    assert is_due(LIVE, (), {"ping"})
    assert not is_due(LIVE, {"other"}, {"pong"})


def test_rows_carry_the_key_of_their_event() -> None:
    rows = carry_key([{"host": "b", "n": 1}], {"host": "a", "site": "x"}, {"host": "", "site": ""})
    assert rows == [{"host": "b", "site": "x", "n": 1}]


def test_event_ends_behind_the_window_of_its_stages() -> None:
    assert may_end(PLAN, 100, {"ping": 111}, {})
    assert not may_end(PLAN, 100, {"ping": 110}, {})
    assert not may_end(PLAN, 100, {"ping": 111}, {"joined": 5})
    assert not may_end(PLAN, 100, {"ping": None}, {})
