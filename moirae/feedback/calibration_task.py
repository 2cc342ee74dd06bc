"""Learning, in the background, what the scores of similarity recalls are worth."""

from collections.abc import Callable
from contextlib import closing
from typing import Any

import structlog
from apscheduler.schedulers.background import BackgroundScheduler
from psycopg import Connection
from psycopg import Error as DatabaseError
from psycopg.types.json import Jsonb

import sql
from archiver.storage import StorageRoot
from moirae.feedback.training import build_training_cases
from moirae.feedback.workspace import load_judged_corpora
from recall.relevance import fit_calibration

_LOG = structlog.get_logger()
_QUERIES = sql.load("judgements")

# Seconds between two looks at what people have said.
_CHECK_INTERVAL = 60


def calibrate(connection: Connection[Any], storage: StorageRoot) -> int:
    """Learn anew for each similarity recall; returns for how many there is enough to learn from."""
    learned = 0
    for definition, name, events in load_judged_corpora(connection, storage):
        values = {"rule": definition.name, "version": definition.version, "recall": name}
        model = fit_calibration(build_training_cases(events))
        if model is None:
            connection.execute(_QUERIES["drop_calibration"], values)
        else:
            learned += 1
            connection.execute(
                _QUERIES["put_calibration"], {**values, "model": Jsonb(model.to_json())}
            )
    return learned


class CalibrationTask:
    """Learns in the background when people have said more. `connect`: a connection of its own, in autocommit."""

    def __init__(self, connect: Callable[[], Connection[Any]], storage: StorageRoot) -> None:
        self._connect = connect
        self._storage = storage
        self._last_basis: tuple[Any, ...] = ()
        self._scheduler = BackgroundScheduler(timezone="UTC")
        self._scheduler.add_job(
            self._run_once, "interval", seconds=_CHECK_INTERVAL, max_instances=1, coalesce=True
        )
        self._scheduler.start()

    def stop(self) -> None:
        """Look no more; what is being learned is dropped."""
        self._scheduler.shutdown(wait=False)

    def _run_once(self) -> None:
        try:
            with closing(self._connect()) as connection:
                basis = tuple(connection.execute(_QUERIES["basis"]).fetchone() or ())
                if basis != self._last_basis:
                    learned = calibrate(connection, self._storage)
                    self._last_basis = basis
                    _LOG.info("calibrated", action="calibrated", recalls=learned)
        except DatabaseError as error:
            _LOG.warning("not calibrated", action="calibration_failed", error=str(error).strip())
