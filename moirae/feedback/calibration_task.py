"""Fits the calibrations of similarity recalls in the background."""

from collections.abc import Callable
from contextlib import closing

import structlog

import sql
from archiver.background import BackgroundRunner
from archiver.periodic import Periodic
from archiver.storage import StorageRoot
from moirae.feedback.training import build_training_cases
from moirae.feedback.workspace import load_judged_corpora
from recall.relevance import fit_calibration

_LOG = structlog.get_logger()

_CHECK_INTERVAL = 60.0  # seconds between two checks for new feedback


def calibrate(connection: sql.Connection, storage: StorageRoot) -> int:
    """Fit and store a model for each similarity recall; return how many models there are.

    A recall with too little feedback has none; a stored one is deleted.
    """
    gateway = sql.CalibrationGateway(connection)
    fitted = 0
    for definition, name, corpus in load_judged_corpora(connection, storage):
        model = fit_calibration(build_training_cases(corpus))
        if model is None:
            gateway.delete(definition.name, definition.version, name)
        else:
            fitted += 1
            gateway.put(definition.name, definition.version, name, model.to_json())
    return fitted


class CalibrationTask:
    """Fits all calibrations again when there is new feedback.

    `connect`: opens a connection in autocommit mode, for this task alone.
    """

    def __init__(self, connect: Callable[[], sql.Connection], storage: StorageRoot) -> None:
        self._connect = connect
        self._storage = storage
        # The feedback at the last run.
        self._last_feedback: sql.FeedbackStateRow | None = None
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
                feedback = sql.JudgementGateway(connection).get_feedback_state()
                if feedback != self._last_feedback:
                    fitted = calibrate(connection, self._storage)
                    self._last_feedback = feedback
                    _LOG.info("calibrations updated", action="calibrations_updated", recalls=fitted)
        except sql.DatabaseError as error:
            reason = str(error).strip()
            _LOG.warning("calibration failed", action="calibration_failed", error=reason)
