"""Learns from feedback in the background: calibrations, and models of the measure `learned`."""

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import NamedTuple

import structlog

import sql
from archiver.background import BackgroundRunner
from archiver.periodic import Periodic
from archiver.storage import StorageRoot
from archiver.times import Micros
from moirae.errors import MoiraeError
from moirae.feedback.forecast_records import update_forecast_records
from moirae.feedback.judgements import JudgedCorpus
from moirae.feedback.learning_process import run_in_process
from moirae.feedback.training import build_past_events, build_training_cases
from moirae.feedback.workspace import JudgedRecall, load_judged_corpora
from recall.learning import MODEL_FORMAT, TrainingEvent, build_model
from recall.relevance import fit_calibration
from recall.similarity.measures import LEARNED_MEASURE
from sql.similarity import (
    CalibrationGateway,
    FeedbackStateRow,
    JudgementGateway,
    LearnedModelGateway,
)

_LOG = structlog.get_logger()

_CHECK_INTERVAL = 30.0  # seconds between two checks for new feedback
# While tags of events that were too recent wait, models are built again, but take at most this
# share of the time.
_WAITING_SHARE = 0.1


def calibrate(connection: sql.Connection, storage: StorageRoot) -> int:
    """Fit and store a calibration for each similarity recall; return how many there are.

    A recall with too little feedback has none; a stored one is deleted. Recalls by `learned` have
    a model instead.
    """
    fitted = 0
    for judged in load_judged_corpora(
        connection, storage, has_measure=lambda measure: measure != LEARNED_MEASURE
    ):
        fitted += _calibrate_recall(connection, judged)
    return fitted


def _calibrate_recall(connection: sql.Connection, judged: JudgedRecall) -> bool:
    gateway = CalibrationGateway(connection)
    recall = (judged.definition.name, judged.definition.version, judged.recall)
    model = fit_calibration(build_training_cases(judged.corpus))
    if model is None:
        gateway.delete(*recall)
        return False
    gateway.put(*recall, model.to_json())
    return True


def build_models(connection: sql.Connection, storage: StorageRoot) -> tuple[int, int]:
    """Build and store a model for each recall by `learned`.

    Returns how many were built, and how many tags they could not use yet.
    """
    built = waiting = 0
    for judged in load_judged_corpora(
        connection, storage, has_measure=lambda measure: measure == LEARNED_MEASURE
    ):
        model = _build_model(judged.corpus)
        if model is not None:
            _store_model(connection, judged, model)
            built += 1
            waiting += model.waiting
    return built, waiting


class _BuiltArrays(NamedTuple):
    """A model as it is stored."""

    arrays: bytes
    learned_until: Micros
    resolutions: int
    waiting: int


def _build_arrays(
    events: Sequence[TrainingEvent],
    tags: Mapping[str, str],
    gap: Micros,
    judgements: Mapping[tuple[str, str], bool],
) -> _BuiltArrays | None:
    built = build_model(events, tags, gap, judgements)
    if built is None:
        return None
    return _BuiltArrays(
        built.model.to_bytes(), built.learned_until, built.resolutions, built.waiting
    )


def _build_model(corpus: JudgedCorpus) -> _BuiltArrays | None:
    events = build_past_events(corpus)
    return run_in_process(_build_arrays, events, corpus.kinds, corpus.gap_micros, corpus.judgements)


def _store_model(connection: sql.Connection, judged: JudgedRecall, built: _BuiltArrays) -> None:
    recall = (judged.definition.name, judged.definition.version, judged.recall)
    gateway = LearnedModelGateway(connection)
    gateway.add(
        recall,
        learned_until=built.learned_until,
        resolutions=built.resolutions,
        arrays=built.arrays,
        format=MODEL_FORMAT,
    )
    gateway.delete_superseded(*recall)


def waiting_interval(seconds: float) -> float:
    """How long to wait after a run that took some seconds, while tags wait to be old enough.

    With the interval of the check, a tag counts within a minute if a run takes up to three seconds.
    """
    return seconds / _WAITING_SHARE


class CalibrationTask:
    """Learns again when there is new feedback.

    `connect`: opens a connection in autocommit mode, for this task alone.
    """

    def __init__(self, connect: Callable[[], sql.Connection], storage: StorageRoot) -> None:
        self._connect = connect
        self._storage = storage
        # The feedback at the last run.
        self._last_feedback: FeedbackStateRow | None = None
        # When to learn again without new feedback, by the monotonic clock; None: not at all.
        self._next_run_at: float | None = None
        check = Periodic(
            "calibration", _CHECK_INTERVAL, self._run_once, first_after=_CHECK_INTERVAL
        )
        self._runner = BackgroundRunner([check])

    def stop(self) -> None:
        """Stop checking. Does not wait for a run in progress."""
        self._runner.stop()

    def _run_once(self) -> None:
        try:
            with closing(self._connect()) as connection:
                feedback = JudgementGateway(connection).get_feedback_state()
                if feedback != self._last_feedback or self._is_run_due():
                    self._learn(connection)
                    self._last_feedback = feedback
        except (sql.DatabaseError, MoiraeError) as error:
            reason = str(error).strip()
            _LOG.warning("calibration failed", action="calibration_failed", error=reason)

    def _is_run_due(self) -> bool:
        return self._next_run_at is not None and time.monotonic() >= self._next_run_at

    def _learn(self, connection: sql.Connection) -> None:
        began_at = time.monotonic()
        calibrated = calibrate(connection, self._storage)
        _LOG.info("calibrations updated", action="calibrations_updated", recalls=calibrated)
        built, waiting = build_models(connection, self._storage)
        update_forecast_records(connection)
        self._next_run_at = None
        if waiting:
            now = time.monotonic()
            self._next_run_at = now + waiting_interval(now - began_at)
        if built:
            _LOG.info("models learned", action="models_learned", recalls=built, waiting=waiting)
