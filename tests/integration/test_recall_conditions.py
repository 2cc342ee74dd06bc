"""Conditions of rules in the recall manager."""

from typing import Any
from uuid import UUID

from tests.integration.history import History, run_until


def _alert(past: History, task: UUID, state: str) -> Any:
    past.connection.execute(
        """INSERT INTO alerts (id, eid, rule, version, fingerprint, key, labels, annotations, state, starts_at, last_at,
        events) VALUES (%(eid)s, %(eid)s, %(rule)s, '1', %(eid)s, '{}', '{}', '{}', %(state)s, now(), now(), 1)""",
        {"eid": past.task(task)["eid"], "rule": past.task(task)["rule"], "state": state},
    )
    return past.task(task)["eid"]


def test_condition_of_a_stopped_rule_passes_without_history(past: History) -> None:
    """For a running rule the recall may still start; withdrawn alerts are not decided."""
    condition = {
        "where": "norm.n > 0",
        "judged": {"norm": {"n": "bigint"}, "other": {"n": "bigint"}},
    }
    rules = ("g/gone", "g/live", "g/withdrawn")
    tasks = [past.add_task(number, rule=rule, **condition) for number, rule in enumerate(rules, 1)]
    states = ("firing", "firing", "withdrawn")
    eids = [_alert(past, task, state) for task, state in zip(tasks, states, strict=True)]
    past.connection.execute(
        "INSERT INTO deployments (rule, version, state) VALUES ('g/live', '1', 'running')"
    )

    def verdicts() -> list[str | None]:
        verdict_by_eid = dict(past.connection.execute("SELECT eid, verdict FROM alerts").fetchall())
        return [verdict_by_eid[eid] for eid in eids]

    try:
        with past.manager() as manager:
            run_until(manager, lambda: all(past.task(task)["state"] == "done" for task in tasks))
            assert verdicts() == [None, None, None]
            run_until(manager, lambda: verdicts()[0] is not None)
        assert verdicts() == ["no history", None, None]
    finally:
        past.connection.execute("TRUNCATE alerts, deployments CASCADE")
