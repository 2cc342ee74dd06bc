"""What is set aside: files, streams, relations and topics that break their reader, and rules in
quarantine.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import sql
from moirae.inspect.report import SetAsideStatus
from sql.archive import SetAsideGateway, SetAsideRow
from sql.rules import DeploymentGateway, DeploymentRow


def list_set_aside(connection: sql.Connection) -> list[SetAsideStatus]:
    """What failed at the last try, the longest first, then quarantined rules by name.

    `set_aside_at` None: it is still tried at intervals. Of quarantined rules no times are known,
    but they are set aside.
    """
    failed = list(map(_describe_row, SetAsideGateway(connection).list_all()))
    for deployment in DeploymentGateway(connection).list_active():
        if deployment.state == "quarantined":
            failed.append(_describe_quarantined(deployment))
    return failed


def _describe_row(row: SetAsideRow) -> SetAsideStatus:
    return SetAsideStatus(
        kind=row.kind,
        stream=row.stream,
        name=row.name,
        reason=row.reason,
        tries=row.tries,
        first_failed_at=row.first_failed_at,
        last_failed_at=row.last_failed_at,
        set_aside_at=row.set_aside_at,
        is_set_aside=row.set_aside_at is not None,
        retry_requested=row.retry_requested,
    )


def _describe_quarantined(deployment: DeploymentRow) -> SetAsideStatus:
    return SetAsideStatus(
        kind="rule",
        stream="",
        name=deployment.rule,
        reason=deployment.error or "",
        tries=deployment.failures,
        first_failed_at=None,
        last_failed_at=None,
        set_aside_at=None,
        is_set_aside=True,
        retry_requested=False,
    )


def describe_subject(subject: Mapping[str, Any]) -> str:
    """`file landing/m/a.jsonl of stream m`, or `relation hosts`."""
    text = f"{subject['kind']} {subject['name']}"
    return f"{text} of stream {subject['stream']}" if subject["stream"] else text


def find_set_aside_problem(failed: Sequence[Mapping[str, Any]]) -> str | None:
    """A line about subjects that are set aside, or still tried; None: there are none.

    Rules in quarantine are left out: they are a problem of their own.
    """
    subjects = [subject for subject in failed if subject["kind"] != "rule"]
    if not subjects:
        return None
    first = subjects[0]
    reason = (first["reason"].splitlines() or [""])[0]
    line = f"set aside after {first['tries']} tries: {describe_subject(first)}: {reason}"
    if len(subjects) > 1:
        line += f" (and {len(subjects) - 1:,} more, see `moirae set-aside list`)"
    return f"{line}: correct it, or run `moirae set-aside retry`"
