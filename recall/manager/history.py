"""History queries: a piece of history read for some tasks of one question, in a thread of its own."""

import time
from collections.abc import Sequence
from dataclasses import replace

import pyarrow as pa
import structlog

from recall.engines.answers import Rows
from recall.engines.chosen import Engines
from recall.engines.template import Own, Template, merged
from recall.ledger import Revision, Step, Task
from recall.manager.desk import Work
from recall.manager.workers import Asking, words
from recall.operators.aggregates import Exceeded
from recall.operators.estimate import lengths
from recall.operators.moments import estimates
from recall.request import Asked, Piece, coverage

_LOG = structlog.get_logger()


def read(asking: Asking, works: list[Work], own: Own) -> list[Step]:
    """Read the next piece of some tasks of one question. A query that fails is tried for each task by itself."""
    began = time.monotonic()
    engines = asking.engines
    template = works[0].template
    assert template is not None
    shares = [(work.task.asked, work.share()) for work in works if work.left]
    error, seen = None, dict[str, int]()
    try:
        partial, seen = _asked(engines, template, shares, own)
        found = {work.task.id: partial.get(str(work.task.asked.eid)) for work in works}
        held = {w.task.id: merged(template, _loaded(w.task.held), found[w.task.id], _length(w)) for w in works}
    except Exception as fault:
        asking.failed(fault)
        if len(works) > 1:
            return [step for work in works for step in read(asking, [work], own)]
        if isinstance(fault, Exceeded):
            return [_exceeded(works[0].task, fault, time.monotonic() - began)]
        if works[0].upto > works[0].task.next + 1:
            works[0].upto = works[0].task.next + 1  # not all of these pieces need be at fault
            return read(asking, works, own)
        error = words(fault)
        _LOG.error("history query failed", action="piece_failed", rule=works[0].task.rule, error=error)
        found, held = {works[0].task.id: None}, {works[0].task.id: _loaded(works[0].task.held)}
    due = [work for work in works if work.due(time.monotonic())]
    answers, faults = _answers(asking, template, [(w.task.asked, held[w.task.id]) for w in due], own)
    seconds = (time.monotonic() - began) / len(works)
    steps = []
    for work in works:
        task, more = work.task, found[work.task.id]
        eid = str(task.asked.eid)
        revision = answers.get(eid, []) if work in due and eid not in faults else None
        rows = 0 if more is None else len(more)
        step = _step(work, held[task.id], rows, seconds, revision, error, faults.get(eid))
        steps.append(replace(step, appends=None if error is not None else seen))
    return steps


def _asked(
    engines: Engines, template: Template, shares: Sequence[tuple[Asked, Piece]], own: Own
) -> tuple[dict[str, pa.Table], dict[str, int]]:
    """The partial answers of some events, and of how many appends of each stream."""
    if not shares:
        return {}, {}
    with engines.looking(template, shares) as seen:
        return engines.partial(template, shares, own), seen


def _answers(
    asking: Asking, template: Template, held: Sequence[tuple[Asked, pa.Table | None]], own: Own
) -> tuple[dict[str, Rows], dict[str, str]]:
    """What the merged partial answers say, and for which events that cannot be computed, and why."""
    try:
        return (asking.engines.answer(template, held, own) if held else {}), {}
    except Exception as fault:
        asking.failed(fault)
        if len(held) == 1:
            return {}, {str(held[0][0].eid): words(fault)}
    answers: dict[str, Rows] = {}
    faults: dict[str, str] = {}
    for one in held:
        found, fault_of_one = _answers(asking, template, [one], own)
        answers |= found
        faults |= fault_of_one
    return answers, faults


def _step(
    work: Work,
    held: pa.Table | None,
    rows: int,
    seconds: float,
    answer: Rows | None,
    not_read: str | None,
    not_answered: str | None,
) -> Step:
    """The task after its next pieces. Where no piece has given anything, or the end has no answer, it has failed."""
    task, upto = work.task, work.upto
    assert task.pieces is not None and work.template is not None
    failed = task.failed + (upto - task.next if not_read is not None else 0)
    covered = coverage(task.pieces, upto, failed, task.skipped)
    error = not_read or not_answered
    if covered.final and error is not None and (answer is None or failed == len(task.pieces) - task.skipped):
        return Step(task, upto, failed, None, rows, rows, seconds, "failed", error=error)
    revision = None
    if answer is not None:
        likely = estimates(work.template.split, held, answer, sum(lengths(task.pieces)), not covered.partial)
        revision = Revision(covered, answer, likely)
    kept = None if covered.final else _dumped(held)
    ended = "done" if covered.final else "running"
    return Step(task, upto, failed, kept, rows, rows, seconds, ended, revision, error)


def _exceeded(task: Task, fault: Exceeded, seconds: float) -> Step:
    """The end of a task that holds more than it may: reading on would only add to it."""
    error = f"recall {task.recall} of rule {task.rule}: {fault}"
    _LOG.error("recall exceeds its limit", action="recall_exceeded", rule=task.rule, recall=task.recall, error=error)
    return Step(task, task.next, task.failed, None, 0, 0, seconds, "failed", error=error, exceeded=True)


def _length(work: Work) -> float:
    """Of what the query at hand reads, in seconds."""
    assert work.task.pieces is not None
    return sum(lengths(work.task.pieces)[work.task.next : work.upto])


def _loaded(held: bytes | None) -> pa.Table | None:
    return None if held is None else pa.ipc.open_stream(held).read_all()


def _dumped(held: pa.Table | None) -> bytes | None:
    if held is None:
        return None
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, held.schema) as writer:
        writer.write_table(held)
    written: bytes = sink.getvalue().to_pybytes()
    return written
