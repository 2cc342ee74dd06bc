"""A process of notifications that kills itself at one point of its work."""

import os
import random
import signal
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from moirae.config.settings import load_settings
from moirae.notify import run_notify
from moirae.notify.delivery.http_connection import HttpConnection
from moirae.notify.process.deliveries import Deliveries
from moirae.notify.process.incoming import Incoming
from moirae.notify.process.outbox import MessageOutbox

Point = tuple[type, str, str]
"""A method, and whether the process is killed before or after it."""

POINTS: dict[str, Point | None] = {
    "messages stored, position not": (MessageOutbox, "add", "after"),
    "all stored, not committed": (Incoming, "save", "after"),
    "committed, not queued": (Deliveries, "put", "before"),
    "connected, not sent": (HttpConnection, "exchange", "before"),
    "delivered, result not stored": (HttpConnection, "exchange", "after"),
    "results taken, not stored": (Deliveries, "store", "before"),
    "results stored, not committed": (Deliveries, "store", "after"),
    "summary stored, not committed": (MessageOutbox, "add_summaries", "after"),
    "any moment": None,
}


def main(folder: Path, point: str | None, seed: int) -> None:
    """Send notifications until killed. `point` None: by others only."""
    if point is not None:
        chooser = random.Random(seed)
        target = POINTS[point]
        if target is None:
            threading.Thread(target=_kill_after, args=(chooser.uniform(0.1, 1.5),)).start()
        else:
            _kill_at(target, chooser.randint(1, 8))
    run_notify(load_settings(folder, os.environ), threading.Event(), threading.Event())


def _kill_after(seconds: float) -> None:
    time.sleep(seconds)
    os.kill(os.getpid(), signal.SIGKILL)


def _kill_at(point: Point, number: int) -> None:
    """Have the process killed at the call of this number."""
    owner, name, when = point
    method: Callable[..., Any] = getattr(owner, name)
    calls = 0

    def counted(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        calls += 1
        is_last = calls >= number
        if is_last and when == "before":
            os.kill(os.getpid(), signal.SIGKILL)
        result = method(*arguments, **named)
        if is_last:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    setattr(owner, name, counted)
