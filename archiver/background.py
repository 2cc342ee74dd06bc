"""Actions in a thread of their own, one at a time: a thin layer over APScheduler."""

import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from apscheduler.executors.pool import ThreadPoolExecutor
from apscheduler.schedulers.background import BackgroundScheduler

from archiver.periodic import Periodic


class BackgroundRunner:
    """Runs periodic and submitted actions in one thread, until it is stopped.

    APScheduler logs errors that actions raise; a periodic action continues after one.
    """

    def __init__(self, periodics: Sequence[Periodic] = ()) -> None:
        self._is_stopped = threading.Event()
        self._scheduler = BackgroundScheduler(
            executors={"default": ThreadPoolExecutor(1)}, timezone="UTC"
        )
        self._scheduler.start()
        for periodic in periodics:
            self._schedule(periodic)

    def submit(self, action: Callable[..., None], *arguments: Any) -> None:
        """Run an action once, after those submitted before."""
        self._scheduler.add_job(self._run, args=[action, *arguments], misfire_grace_time=None)

    def stop(self) -> None:
        """Start no further action, without waiting for the running one."""
        self._is_stopped.set()
        self._scheduler.shutdown(wait=False)

    def _schedule(self, periodic: Periodic) -> None:
        run_date = datetime.now(UTC) + timedelta(seconds=periodic.seconds_left())
        self._scheduler.add_job(
            self._run,
            "date",
            run_date=run_date,
            args=[self._run_periodic, periodic],
            name=periodic.name,
            misfire_grace_time=None,
        )

    def _run(self, action: Callable[..., None], *arguments: Any) -> None:
        """Run an action unless stopped: the thread also gets those queued before the stop."""
        if not self._is_stopped.is_set():
            action(*arguments)

    def _run_periodic(self, periodic: Periodic) -> None:
        try:
            periodic.run()
        finally:
            self._schedule(periodic)
