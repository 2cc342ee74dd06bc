"""Claims tasks from the ledger, decides what they read, and follows what others do to them."""

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import replace
from uuid import UUID

from cachetools import LRUCache, TTLCache

import sql
from archiver.ingest import Catalog
from archiver.periodic import Timer
from recall.corpora import Corpora
from recall.engines import Template
from recall.ledger import Ledger, Task
from recall.requests import ChunkRange, SimilarQuestion, SqlQuestion, plan_pieces
from recall.scheduling import ValueRange, interleave
from recall.summaries import SummaryStore
from recall.worker.active_tasks import MAX_ATTEMPTS, ActiveTask, ActiveTasks
from recall.worker.piece_ranking import PieceRanking
from recall.worker.query_slots import summarise_error
from recall.worker.turn_recorder import TurnRecorder

# Active tasks of each level, and of each rule.
_MAX_TASKS_PER_LEVEL = 500
_MAX_TASKS_PER_RULE = 250
# Between two checks for a backlog of first answers, and for quarantined recalls.
_CHECK_INTERVAL = 0.5  # seconds
# Tasks of a recall in a row that exceed a limit before its tasks fail unread for an hour.
_QUARANTINE_THRESHOLD = 3
_MAX_QUARANTINE_CHECKS = 1_000  # in memory
# Parsed queries in memory: one takes 60 kB and some ten milliseconds to create.
_MAX_TEMPLATES = 1_000


class TaskClaimer:
    """Keeps as many tasks active as the limits allow."""

    def __init__(
        self,
        connection: sql.Connection,
        ledger: Ledger,
        *,
        active_tasks: ActiveTasks,
        recorder: TurnRecorder,
        corpora: Corpora,
        ranking: PieceRanking,
        summaries: SummaryStore | None = None,
    ) -> None:
        self._connection = connection
        self._ledger = ledger
        self._active_tasks = active_tasks
        self._recorder = recorder
        self._corpora = corpora
        self._ranking = ranking
        self._summaries = summaries
        self._templates: LRUCache[str, Template] = LRUCache(_MAX_TEMPLATES)
        # By (rule, version, recall): whether it is quarantined.
        self._quarantined: TTLCache[tuple[str, str, str], bool] = TTLCache(
            _MAX_QUARANTINE_CHECKS, _CHECK_INTERVAL
        )
        self._backlog_timer = Timer(_CHECK_INTERVAL)
        # The chunks that are not expired, and what they were read at: see `Catalog`.
        self._chunks: list[ChunkRange] = []
        self._chunk_signature: tuple[int, ...] = ()

    def claim(self, level: int) -> None:
        """Claim free tasks of a level up to the limits."""
        self._activate_all(self._claim_level(level))

    def claim_task(self, task: UUID) -> None:
        """Claim one task, if it is free."""
        self._activate_all(self._ledger.claim_task(task))

    def _activate_all(self, tasks: Sequence[Task]) -> None:
        chunks: Sequence[ChunkRange] = ()
        if any(task.progress.pieces is None for task in tasks):
            chunks = self._unexpired_chunks()
        for task in tasks:
            try:
                self._activate(task, chunks)
            except sql.DatabaseError:
                raise
            except Exception as error:  # a fault of this task must not stop the others
                self._recorder.fail(task, summarise_error(error))

    def _claim_level(self, level: int) -> list[Task]:
        tasks_by_rule = Counter(
            active_task.spec.rule
            for active_task in self._active_tasks.tasks.values()
            if active_task.is_background == (level > 0)
        )
        full_rules = [rule for rule, count in tasks_by_rule.items() if count >= _MAX_TASKS_PER_RULE]
        limit = _MAX_TASKS_PER_LEVEL - tasks_by_rule.total()
        if level == 0 and self._backlog_timer.is_due():
            self._backlog_timer.restart()
            at_limit = limit <= 0 or bool(full_rules)
            self._active_tasks.has_backlog = at_limit and self._ledger.has_unanswered()
        if limit <= 0:
            return []
        return self._ledger.claim(level, limit, _MAX_TASKS_PER_RULE, full_rules)

    def _unexpired_chunks(self) -> Sequence[ChunkRange]:
        """The chunks of all of history, oldest first. They are read again when they have changed."""
        catalog = Catalog(self._connection)
        signature = catalog.chunk_signature()
        if signature != self._chunk_signature:
            self._chunks = []
            for chunk in catalog.chunks():
                if chunk.state != "expired":
                    self._chunks.append(ChunkRange(chunk.id, chunk.time_range))
            self._chunk_signature = signature
        return self._chunks

    def _activate(self, task: Task, chunks: Sequence[ChunkRange]) -> None:
        if task.progress.tries >= MAX_ATTEMPTS:
            self._recorder.end_attempts(task)
            return
        if self._is_quarantined(task):
            self._recorder.fail(
                task,
                f"not started: the last {_QUARANTINE_THRESHOLD} tasks of this recall"
                " needed too much memory or time",
            )
            return
        question = task.spec.question
        question_key = repr(question)
        template: Template | None = None
        if isinstance(question, SqlQuestion):
            template = self._templates.get(question_key)
            if template is None:
                template = Template(question)
                self._templates[question_key] = template
        else:
            question_key = f"{task.spec.rule} {task.spec.version} {question_key}"
        summarised: Collection[int] = ()
        # Those whose parts are asked for are read, in part or as a whole: how many is not known here.
        if template is not None and self._summaries is not None and not template.reads_ranges:
            summarised = self._summaries.answered_chunks(template)
        if task.progress.pieces is None:
            task = self._plan(task, template, chunks, summarised)
            if template is not None:  # a comparison pins what it reads at its first turn
                task = self._recorder.plan_pieces(task)
        values: Sequence[ValueRange | None] = ()
        if template is not None:
            values = self._ranking.find_values(template, task.progress.pieces or ())
        active_task = ActiveTask(
            task, template, question_key, summarised=summarised, piece_values=values
        )
        self._active_tasks.add(active_task)

    def _plan(
        self,
        task: Task,
        template: Template | None,
        chunks: Sequence[ChunkRange],
        summarised: Collection[int],
    ) -> Task:
        """Decide which pieces a task reads, and in which order."""
        spec, question = task.spec, task.spec.question
        pieces = plan_pieces(chunks, spec.event.ts, question, spec.event.previous)
        progress = replace(task.progress, pieces=pieces, skipped=0)
        if isinstance(question, SimilarQuestion):
            index = self._corpora.load_index(spec.rule, spec.version, question)
            progress = replace(progress, corpus=index.last_sequence)
            if question.order in ("promising", "mixed"):
                ranked = self._corpora.rank_by_expected_score(replace(task, progress=progress))
                if question.order == "mixed":
                    ranked = interleave(pieces, ranked)
                progress = replace(progress, pieces=ranked)
        if template is not None and template.split.whole is None and not summarised:
            ranked, skipped = self._ranking.rank(spec, template, pieces)
            progress = replace(progress, pieces=ranked, skipped=skipped)
        return replace(task, progress=progress)

    def _is_quarantined(self, task: Task) -> bool:
        """Whether the latest tasks of a recall have all exceeded a limit; cached for a moment."""
        recall = (task.spec.rule, task.spec.version, task.spec.recall)
        is_quarantined = self._quarantined.get(recall)
        if is_quarantined is None:
            is_quarantined = self._ledger.count_exceeded(*recall) >= _QUARANTINE_THRESHOLD
            self._quarantined[recall] = is_quarantined
        return is_quarantined

    def sync_with_ledger(self) -> None:
        """Apply the changes that commands, other processes and late events made to the tasks."""
        claims = self._ledger.claimed_tasks()
        for task_id, active_task in list(self._active_tasks.tasks.items()):
            claim = claims.get(task_id)
            if claim is None or claim.fence != active_task.spec.fence:
                self._active_tasks.drop(task_id)
                continue
            progress = replace(active_task.progress, level=claim.level, tickets=claim.tickets)
            if progress != active_task.progress:
                self._active_tasks.update(active_task, progress)
