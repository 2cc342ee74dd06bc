"""Plans of events: their stored form, and the order of stages."""

from graphlib import CycleError

import orjson
import pytest

from recall.event_plans import EventPlan, Stage, order_stages

STAGE = Stage(
    name="light",
    sql="SELECT n.host FROM norm n",
    inputs={"norm": {"host": "string"}},
    columns={"host": "string"},
    row_key=("host",),
    streams={"ping": "ts"},
    relations={"hosts": {"host": "string"}},
    within=5,
)


def test_plan_is_restored_from_its_stored_form() -> None:
    plan = EventPlan(recalls=("norm",), stages=(STAGE,), where="norm.n > 1", every=0.5)
    assert EventPlan.from_json(orjson.loads(orjson.dumps(plan.to_json()))) == plan


def test_plan_of_an_earlier_version_has_a_condition_only() -> None:
    plan = EventPlan.from_json({"where": "norm.n > 1", "attributes": {}, "judged": {"norm": {}}})
    assert plan.condition is not None
    assert plan.is_evaluated
    assert not EventPlan().is_evaluated


def test_stages_come_after_those_that_they_read() -> None:
    assert order_stages({"c": ["b"], "a": ["norm"], "b": ["a", "norm"]}) == ["a", "b", "c"]
    with pytest.raises(CycleError):
        order_stages({"a": ["b"], "b": ["a"]})
