"""The Recall Manager: who reads which piece of history next, and what becomes of what was read.

One loop: carry out commands, claim tasks, give turns (at most N history queries at once), take results in. Each result
moves its task's cursor, partial answer and revision in one transaction, so that a piece counts once whenever the
process is killed. SQL recalls of the same question that wait for the same chunk share one query.
"""

import os
import re
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any
from uuid import UUID

import psycopg
import pyarrow as pa
import structlog
from psycopg import Connection

import sql
from archiver.catalog import Catalog
from recall.corpora import Corpora
from recall.engines.chosen import Engines
from recall.engines.spark import Rows
from recall.engines.template import Own, Template, merged
from recall.ledger import LEASE, Ledger, Revision, Step, Task
from recall.query.shape import Unsupported
from recall.query.split import MERGED
from recall.request import Asked, Piece, SimilarQuestion, SqlQuestion, coverage, pieces
from recall.schedule import Stride
from recall.similarity.answer import SimilarState, compare

_LOG = structlog.get_logger()
_CONTEXTS = sql.load("contexts")

# All in seconds. Between two looks at the ledger; the longest stretch of turns that need no engine.
_LOOK, _TURNS = 0.05, 0.05
# Between two looks for alerts that wait for their condition; until a condition may take the last place; between two
# signs of life.
_SEARCH, _PATIENCE, _SIGN = 2.0, 2.0, LEASE.total_seconds() / 3
# Tasks on the desk, of each level, and most tasks in one query.
_CLAIM, _TOGETHER = 500, 200
# Pieces that one query reads in the background.
_RUN = 32
# How often a process may fall over the same piece of a task before the task is given up.
_TRIES = 3
# A fault of the software, as sysexits.h names it.
_FELL = 70
_VERDICTS = {True: "kept", False: "held back", None: "no history"}


class EngineLost(Exception):
    """The JVM is gone, and this process with it: the next one goes on."""


@dataclass
class _Work:
    """A task on the desk."""

    task: Task
    template: Template | None
    revised_at: float = 0.0
    busy: bool = False
    upto: int = 0
    """How many pieces are read when the query at hand is done."""
    better: bool = False
    """Whether more is known than the last revision says."""

    @property
    def background(self) -> bool:
        return self.task.level > 0

    def due(self, now: float) -> bool:
        """Whether an answer is due after the query at hand."""
        task = self.task
        assert task.pieces is not None
        return self.upto >= len(task.pieces) or (
            not self.background and (task.revision == 0 or now - self.revised_at >= task.question.every)
        )

    def share(self) -> Piece:
        """The pieces that the query at hand reads, as one."""
        assert self.task.pieces is not None
        taken = self.task.pieces[self.task.next : self.upto]
        lows = [low for _, low, _ in taken if low is not None]
        return taken[0][0], min(lows) if len(lows) == len(taken) else None, max(high for _, _, high in taken)


@dataclass
class _Turn:
    """Tasks whose next piece is read by one query."""

    works: list[_Work]
    began: float = field(default_factory=time.monotonic)


@dataclass
class _Judging:
    """A condition that waits for an engine, then is judged."""

    task: Task
    question: SqlQuestion
    answers: dict[str, Any]
    engines: Engines | None = None
    began: float = field(default_factory=time.monotonic)


class Manager:
    """The loop of one process. `engines`: a Spark session each, as many as may be in use at once. `stuck`: seconds that
    a history query may take."""

    def __init__(
        self,
        connection: Connection[Any],
        ledger: Ledger,
        corpora: Corpora,
        engines: list[Engines],
        stuck: float,
        stride: Stride[UUID] | None = None,
    ) -> None:
        self._connection = connection
        self._ledger = ledger
        self._corpora = corpora
        self._free = list(engines)
        self._stuck = stuck
        # The background, and what judges conditions, never take the last place: first answers need not wait for them.
        self._kept_free = 1 if len(engines) > 1 else 0
        self._pool = ThreadPoolExecutor(len(engines), "history")
        self._works: dict[UUID, _Work] = {}
        self._stride: Stride[UUID] = stride if stride is not None else Stride()
        self._templates: dict[str, Template] = {}
        self._running: dict[Future[list[Step]], tuple[_Turn, Engines]] = {}
        self._states: dict[UUID, SimilarState] = {}
        self._unjudged: list[_Judging] = []
        self._judging: dict[Future[bool | None], _Judging] = {}
        self._signed = time.monotonic()
        self._searched = 0.0

    def run(self, stop: threading.Event, beat: Callable[[], None]) -> None:
        """Until told to stop. `beat` is called again and again."""
        while not stop.is_set():
            self.round()
            beat()
            if not self.rest() and not self._able():
                stop.wait(_LOOK)
        self.finish()
        self._ledger.release()

    def rest(self) -> bool:
        """Until a query that is under way has ended; False: there is none."""
        under_way: list[Future[Any]] = [*self._running, *self._judging]
        if under_way:
            wait(under_way, timeout=_LOOK, return_when=FIRST_COMPLETED)
        return bool(under_way)

    def finish(self) -> None:
        """Begin nothing more; what is under way counts for nothing, and is read again by the next process."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    def round(self) -> None:
        """One look at everything."""
        self._sign()
        self._commands()
        self._claim()
        self._collect()
        self._judge()
        enough = time.monotonic() + _TURNS
        while time.monotonic() < enough and self._give_turn():
            pass

    # What people ask

    def _commands(self) -> None:
        for command in self._ledger.commands():
            touched = self._ledger.obey(command)
            _LOG.info("command", action=command.command, eid=str(command.eid), recalls=len(touched))
            for number in touched & self._works.keys():
                work = self._works[number]
                if command.command == "accelerate":
                    work.task.level, work.task.tickets = 0, work.task.tickets * 10
                    self._stride.join(number, work.task.tickets, 0)
                else:
                    self._drop(number)

    # The desk

    def _sign(self) -> None:
        now = time.monotonic()
        if now - self._signed > _SIGN:
            self._signed = now
            for gone in self._works.keys() - self._ledger.renew():
                self._drop(gone)
        for turn, _ in self._running.values():
            if now - turn.began > self._stuck:
                # Nothing can end a query that is stuck in Spark but the end of the process.
                self._charge((work.task for work in turn.works), "stuck")
                os._exit(_FELL)
        for judging in self._judging.values():
            if now - judging.began > self._stuck:
                self._charge([judging.task], "condition stuck")
                os._exit(_FELL)

    def _claim(self) -> None:
        held = [work.background for work in self._works.values()]
        rooms = {0: _CLAIM - held.count(False), 1: _CLAIM - held.count(True)}
        for task in (t for level, room in rooms.items() if room > 0 for t in self._ledger.claim(level, room)):
            known = self._works.get(task.id)
            if known is not None and known.busy:
                continue
            try:
                self._take(task)
            except Unsupported as error:
                self._fail(task, str(error))

    def _take(self, task: Task) -> None:
        if task.tries >= _TRIES:
            self._fail(
                task, f"ended the process {task.tries} times over one piece of history: needs too much memory or time"
            )
            return
        if task.pieces is None:
            chunks = [(c.id, c.from_ts, c.to_ts) for c in Catalog(self._connection).chunks()]
            task.pieces = pieces(chunks, task.asked.ts, task.question)
            if isinstance(task.question, SimilarQuestion):
                index = self._corpora.index(task.rule, task.version, task.question.contexts)
                task.corpus = index.number
            self._ledger.pin(task)
        work = _Work(task, self._template(task.question))
        self._works[task.id] = work
        self._stride.join(task.id, task.tickets, task.level)

    def _template(self, question: Any) -> Template | None:
        if not isinstance(question, SqlQuestion):
            return None
        return self._templates.setdefault(repr(question), Template(question))

    def _drop(self, number: UUID) -> None:
        self._works.pop(number, None)
        self._states.pop(number, None)
        self._stride.leave(number)

    def _fail(self, task: Task, reason: str) -> None:
        _LOG.error("recall failed", action="recall_failed", rule=task.rule, recall=task.recall, error=reason)
        self._ledger.advance(Step(task, task.next, task.failed, None, 0, 0.0, "failed", error=reason))
        self._drop(task.id)

    # Turns

    def _able(self) -> list[UUID]:
        return [number for number, work in self._works.items() if not work.busy]

    def _give_turn(self) -> bool:
        """Give the next task its turn; False: there is none, or no room."""
        able = self._able()
        if not self._free:
            able = [number for number in able if isinstance(self._works[number].task.question, SimilarQuestion)]
        if self._give_one(able):
            return True
        # What waits for an engine, or must be alone with them, does not hold up what needs none.
        free = [number for number in able if isinstance(self._works[number].task.question, SimilarQuestion)]
        return 0 < len(free) < len(able) and self._give_one(free)

    def _give_one(self, able: list[UUID]) -> bool:
        number = self._stride.next(able)
        if number is None:
            return False
        work = self._works[number]
        if work.background:
            # Nobody waits: the newest piece first, where others join in on the way down.
            others = [w for w in map(self._works.__getitem__, able) if w.background]
            work = max(others, key=lambda w: (_high(w.task), w.task.created_at))
        work.upto = _end_of_turn(work)
        try:
            return self._turn_of(work, able)
        except psycopg.Error:
            raise
        except Exception as error:  # what is odd about one task is its own
            self._fail(work.task, _words(error))
            return True

    def _turn_of(self, work: _Work, able: Iterable[UUID]) -> bool:
        if not work.task.pieces or work.template is None:
            self._at_once(work)
            return True
        if not self._free or (work.background and len(self._free) <= self._kept_free):
            return False
        suspects = [w for turn, _ in self._running.values() for w in turn.works if w.task.tries]
        if suspects or (work.task.tries and self._running):
            return False  # over what the process may fall, it works alone
        works = self._together(work, able)
        own = self._own(works)
        for one in works:
            one.busy = True
        self._stride.served([w.task.id for w in works])
        engines = self._free.pop()
        turn = _Turn(works)
        self._running[self._pool.submit(_read, engines, works, own)] = turn, engines
        return True

    def _together(self, work: _Work, able: Iterable[UUID]) -> list[_Work]:
        """The task and others of the same question: those that wait for the same chunk; in the background, where
        several chunks are read at once, all that come by there."""
        if work.task.tries:
            return [work]
        assert work.task.pieces is not None
        chunks = {chunk for chunk, _, _ in work.task.pieces[work.task.next : work.upto]}
        same = []
        for other in map(self._works.__getitem__, able):
            if other is not work and other.template is work.template and not other.task.tries and other.task.pieces:
                rest = other.task.pieces[other.task.next :]
                if rest[0][0] in chunks and (other.background == work.background):
                    other.upto = other.task.next + sum(1 for _ in takewhile(lambda piece: piece[0] in chunks, rest))
                    same.append(other)
        return [work, *same[: _TOGETHER - 1]]

    def _at_once(self, work: _Work) -> None:
        """What needs no Spark: similarity over the index in memory; a question without any engines."""
        task = work.task
        self._stride.served([task.id])
        if not isinstance(task.question, SimilarQuestion):
            self._take_in(work, _read(self._free[0], [work], self._own([work]))[0])
            return
        began = time.monotonic()
        assert task.pieces is not None and task.corpus is not None
        index = self._corpora.index(task.rule, task.version, task.question.contexts)
        state = self._similar_state(task)
        upto = len(task.pieces) if work.background else min(task.next + 1, len(task.pieces))
        work.upto = upto
        compared = 0
        for _, low, high in task.pieces[task.next : upto]:
            more, better = compare(index, state, task.question, low, high)
            compared, work.better = compared + more, work.better or better
        covered = coverage(task.pieces, upto, task.failed)
        due = covered.final or task.revision == 0 or (work.better and work.due(time.monotonic()))
        revision = Revision(covered, state.answer(index)) if due else None
        seconds = time.monotonic() - began
        held = None if covered.final else state.dump()
        ended = "done" if covered.final else "running"
        self._take_in(work, Step(task, upto, task.failed, held, compared, seconds, ended, revision))

    def _similar_state(self, task: Task) -> SimilarState:
        assert isinstance(task.question, SimilarQuestion) and task.corpus is not None
        state = self._states.get(task.id)
        if state is None or task.next == 0:
            index = self._corpora.index(task.rule, task.version, task.question.contexts)
            found = self._connection.execute(_CONTEXTS["context"], {"eids": [task.asked.eid]}).fetchall()
            mine = [row[4] for row in found if row[0] == task.rule and row[1] == task.version]
            state = SimilarState.of(index, task.question, task.asked, task.corpus, mine[0] if mine else {}, task.held)
            self._states[task.id] = state
        return state

    def _own(self, works: list[_Work]) -> Own:
        """The rows of the rule's own tables that a question names, for some events."""
        template = works[0].template
        assert template is not None
        tables: dict[str, dict[str, Any]] = {n: {} for n in template.partial.used.own | template.merge.used.own}
        tables.pop(MERGED, None)
        if tables:
            eids = [work.task.asked.eid for work in works]
            found = self._connection.execute(_CONTEXTS["context"], {"eids": eids}).fetchall()
            for _, _, eid, _, contexts, surroundings, _ in found:
                for name in tables:
                    tables[name][str(eid)] = contexts.get(name) or surroundings.get(name) or []
        return tables

    # Results

    def _charge(self, tasks: Iterable[Task], what: str) -> None:
        """The process falls over this query: its tasks are tried again alone, and given up after some times."""
        charged = list(tasks)
        self._ledger.charge(charged)
        _LOG.error("history query", action=what, recalls=[str(task.id) for task in charged])

    def _collect(self) -> None:
        for future in [f for f in self._running if f.done()]:
            turn, engines = self._running.pop(future)
            self._free.append(engines)
            try:
                steps = future.result()
            except EngineLost:
                self._charge((work.task for work in turn.works), "engine lost")
                raise
            for work, step in zip(turn.works, steps, strict=True):
                work.busy = False
                self._take_in(work, step)

    def _take_in(self, work: _Work, step: Step) -> None:
        task = work.task
        try:
            stored = self._ledger.advance(step)
        except (TypeError, ValueError, psycopg.DataError, psycopg.errors.ProgramLimitExceeded) as error:
            self._fail(task, f"the answer cannot be stored: {_words(error)}")
            return
        if not stored:
            self._drop(task.id)
            return
        if step.revision is not None:
            work.revised_at, work.better = time.monotonic(), False
        if step.state != "running":
            self._drop(task.id)
            if isinstance(task.question, SqlQuestion) and task.question.where is not None:
                self._verdict(task)

    def _verdict(self, task: Task) -> None:
        """When all recalls that the rule's `where` names are answered, it is judged."""
        question = task.question
        if not isinstance(question, SqlQuestion) or question.where is None:
            return
        if task.tries >= _TRIES:
            _LOG.error("where failed", action="where_failed", rule=task.rule, error="needs too much memory or time")
            self._ledger.verdict(task.rule, task.asked.eid, _VERDICTS[None])
            return
        answers = self._ledger.answers(task.asked.eid)
        named = {name: answers.get(name) for name in question.judged}
        if any(one is None or one["state"] in ("waiting", "running") for one in named.values()):
            return
        known = {name: ((one["answer"] if one else None) or [], question.judged[name]) for name, one in named.items()}
        self._unjudged.append(_Judging(task, question, known))

    def _judge(self) -> None:
        """Give conditions that wait a free engine, and take in what was found."""
        now = time.monotonic()
        if now - self._searched > _SEARCH and not self._unjudged and not self._judging:
            self._searched = now
            for task in self._ledger.unjudged():  # ended by a command, or by the fall of a process
                self._verdict(task)
        while self._unjudged and self._free:
            judging = self._unjudged[0]
            # One at a time may take the last place: Spark may only be starting for the first.
            if len(self._free) <= self._kept_free and (self._judging or now - judging.began < _PATIENCE):
                break
            judging.engines, judging.began = self._free.pop(), now
            future = self._pool.submit(
                judging.engines.spark.judge, judging.question, judging.task.asked, judging.answers
            )
            self._judging[future] = self._unjudged.pop(0)
        for future in [f for f in self._judging if f.done()]:
            judging = self._judging.pop(future)
            assert judging.engines is not None
            self._free.append(judging.engines)
            task = judging.task
            try:
                found = future.result()
            except Exception as error:
                if not judging.engines.spark.alive():
                    self._charge([task], "engine lost")
                    raise EngineLost from error
                _LOG.error("where failed", action="where_failed", rule=task.rule, error=_words(error))
                found = None
            self._ledger.verdict(task.rule, task.asked.eid, _VERDICTS[found])


def _high(task: Task) -> int:
    return task.pieces[task.next][2] if task.pieces and task.next < len(task.pieces) else task.asked.ts


def _end_of_turn(work: _Work) -> int:
    """One piece; in the background, where nobody waits for answers on the way, many."""
    total = len(work.task.pieces or ())
    return min(work.task.next + (_RUN if work.background else 1), total)


# Engines queries, in a thread of the pool


def _read(engines: Engines, works: list[_Work], own: Own) -> list[Step]:
    """Read the next piece of some tasks of one question. A query that fails is tried for each task by itself."""
    began = time.monotonic()
    template = works[0].template
    assert template is not None
    shares = [(work.task.asked, work.share()) for work in works if work.task.pieces]
    error = None
    try:
        partial = engines.partial(template, shares, own) if shares else {}
        found = {work.task.id: partial.get(str(work.task.asked.eid)) for work in works}
        held = {w.task.id: merged(template, _loaded(w.task.held), found[w.task.id]) for w in works}
    except Exception as fault:
        if not engines.spark.alive():
            raise EngineLost from fault
        if len(works) > 1:
            return [step for work in works for step in _read(engines, [work], own)]
        if works[0].upto > works[0].task.next + 1:
            works[0].upto = works[0].task.next + 1  # not all of these pieces need be at fault
            return _read(engines, works, own)
        error = _words(fault)
        _LOG.error("history query failed", action="piece_failed", rule=works[0].task.rule, error=error)
        found, held = {works[0].task.id: None}, {works[0].task.id: _loaded(works[0].task.held)}
    due = [work for work in works if work.due(time.monotonic())]
    answers, faults = _answers(engines, template, [(w.task.asked, held[w.task.id]) for w in due], own)
    seconds = (time.monotonic() - began) / len(works)
    steps = []
    for work in works:
        task, more = work.task, found[work.task.id]
        eid = str(task.asked.eid)
        revision = answers.get(eid, []) if work in due and eid not in faults else None
        rows = 0 if more is None else len(more)
        steps.append(_step(task, work.upto, held[task.id], rows, seconds, revision, error, faults.get(eid)))
    return steps


def _answers(
    engines: Engines, template: Template, held: Sequence[tuple[Asked, pa.Table | None]], own: Own
) -> tuple[dict[str, Rows], dict[str, str]]:
    """What the merged partial answers say, and for which events that cannot be computed, and why."""
    try:
        return (engines.spark.answer(template, held, own) if held else {}), {}
    except Exception as fault:
        if not engines.spark.alive():
            raise EngineLost from fault
        if len(held) == 1:
            return {}, {str(held[0][0].eid): _words(fault)}
    answers: dict[str, Rows] = {}
    faults: dict[str, str] = {}
    for one in held:
        found, fault_of_one = _answers(engines, template, [one], own)
        answers |= found
        faults |= fault_of_one
    return answers, faults


def _step(
    task: Task,
    upto: int,
    held: pa.Table | None,
    rows: int,
    seconds: float,
    answer: Rows | None,
    not_read: str | None,
    not_answered: str | None,
) -> Step:
    """The task after its next pieces. Where no piece has given anything, or the end has no answer, it has failed."""
    assert task.pieces is not None
    failed = task.failed + (upto - task.next if not_read is not None else 0)
    covered = coverage(task.pieces, upto, failed)
    error = not_read or not_answered
    if covered.final and error is not None and (answer is None or failed == len(task.pieces)):
        return Step(task, upto, failed, None, rows, seconds, "failed", error=error)
    revision = None if answer is None else Revision(covered, answer)
    kept = None if covered.final else _dumped(held)
    return Step(task, upto, failed, kept, rows, seconds, "done" if covered.final else "running", revision, error)


def _words(error: Exception) -> str:
    """What is wrong, in a line: Spark names it in brackets, somewhere in many lines."""
    text = str(error).strip()
    named = re.search(r"\[[A-Z][A-Z_.0-9]+\] [^\n]+", text)
    return (named[0] if named else (text.splitlines() or [type(error).__name__])[0])[:1000]


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
