"""The messages of one receiver: sent by threads of its own, in the order of each group."""

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from queue import SimpleQueue
from typing import Any

import structlog

from archiver.clock import utc_now
from archiver.threads import start_daemon
from moirae.errors import DeliveryFailed
from moirae.notify.delivery.retries import decide_retry, find_delay

_LOG = structlog.get_logger()

_MAX_THREADS = 4  # for each receiver
_IDLE_TIME = 60.0  # seconds without a message after which a thread ends


@dataclass(frozen=True, kw_only=True)
class Delivery:
    """A message to deliver. `id` None: it is not stored, and tried once."""

    id: int | None
    receiver: str
    group_key: str
    content: Mapping[str, Any]
    created_at: datetime
    attempts: int = 0
    cause: str = "change"


@dataclass(frozen=True)
class DeliveryResult:
    """What became of an attempt. `is_final`: it is not tried again."""

    delivery: Delivery
    error: str | None
    is_final: bool
    thread: str | None = None


Send = Callable[[Delivery], str | None]
"""Delivers a message; returns by which the receiver knows it. Raises `DeliveryFailed`."""


class ReceiverQueue:
    """The messages of one receiver. Threads are started as they are needed.

    While a receiver fails, one message is tried at a time, after longer and longer pauses.
    """

    def __init__(
        self, make_send: Callable[[], Send], results: "SimpleQueue[DeliveryResult]"
    ) -> None:
        """`make_send`: makes what delivers the messages of one thread."""
        self._make_send = make_send
        self._results = results
        self._condition = threading.Condition()
        self._groups: dict[str, deque[Delivery]] = {}
        self._ready: deque[str] = deque()
        """Groups whose first message may be sent, unless it waits."""
        self._waiting: list[tuple[float, str]] = []
        """Groups whose first message was refused, and when it is tried again."""
        self._threads = 0
        self._idle = 0
        self._sending = 0
        self._failures = 0
        self._paused_until = 0.0
        self._is_closed = False

    def put(self, delivery: Delivery) -> None:
        """Queue a message."""
        with self._condition:
            messages = self._groups.get(delivery.group_key)
            if messages is None:
                self._groups[delivery.group_key] = deque([delivery])
                self._ready.append(delivery.group_key)
            else:
                messages.append(delivery)
            if not self._idle and self._threads < _MAX_THREADS and not self._is_closed:
                self._threads += 1
                start_daemon(self._run, f"receiver {delivery.receiver}")
            self._condition.notify()

    def replace_send(self, make_send: Callable[[], Send]) -> None:
        """Deliver the next messages in another way: the receiver was declared anew."""
        with self._condition:
            self._make_send = make_send
            self._failures = 0
            self._paused_until = 0.0
            self._condition.notify_all()

    def close(self) -> None:
        """Let the threads end after the messages that they send now; the others stay stored."""
        with self._condition:
            self._is_closed = True
            self._condition.notify_all()

    def wait_until_idle(self, deadline: float) -> bool:
        """Wait for what is being sent; False: it is not done at a time of the monotonic clock."""
        with self._condition:
            return self._condition.wait_for(
                lambda: not self._sending, max(0.0, deadline - time.monotonic())
            )

    def count(self) -> int:
        """Messages that are not delivered yet."""
        with self._condition:
            return sum(map(len, self._groups.values()))

    def _run(self) -> None:
        make_send = self._make_send
        send = make_send()
        while True:
            delivery = self._take()
            if delivery is None:
                return
            if self._make_send is not make_send:
                make_send = self._make_send
                send = make_send()
            try:
                thread = send(delivery)
            except DeliveryFailed as error:
                self._record_failure(delivery, error)
            except Exception as error:
                # A defect of a channel must not end the process, and with it other receivers.
                _LOG.exception(
                    "delivery failed unexpectedly",
                    action="delivery_defect",
                    receiver=delivery.receiver,
                )
                failure = DeliveryFailed(
                    f"internal error: {type(error).__name__}", is_rejected=True
                )
                self._record_failure(delivery, failure)
            else:
                self._record_success(delivery, thread)
            with self._condition:
                self._sending -= 1  # only now: its result is stored by who waits for it
                if self._failures or self._is_closed:
                    self._condition.notify_all()

    def _take(self) -> Delivery | None:
        """The next message, once it may be sent; None: the thread ends."""
        idle_since = time.monotonic()
        with self._condition:
            while not self._is_closed:
                now = time.monotonic()
                for due in [entry for entry in self._waiting if entry[0] <= now]:
                    self._waiting.remove(due)
                    self._ready.append(due[1])
                is_probing = self._failures > 0 and self._sending > 0
                if self._ready and now >= self._paused_until and not is_probing:
                    self._sending += 1
                    return self._groups[self._ready.popleft()][0]
                if now - idle_since > _IDLE_TIME and not self._groups:
                    break
                self._idle += 1
                self._condition.wait(self._time_to_wait(now))
                self._idle -= 1
            self._threads -= 1
            return None

    def _time_to_wait(self, now: float) -> float:
        times = [at for at, _ in self._waiting]
        if self._ready and self._paused_until > now:
            times.append(self._paused_until)
        return max(0.01, min([*times, now + _IDLE_TIME]) - now)

    def _record_success(self, delivery: Delivery, thread: str | None) -> None:
        with self._condition:
            self._failures = 0
            self._finish(delivery.group_key)
        self._results.put(DeliveryResult(delivery, None, True, thread))

    def _record_failure(self, delivery: Delivery, failure: DeliveryFailed) -> None:
        with self._condition:
            attempted = Delivery(**{**vars(delivery), "attempts": delivery.attempts + 1})
            delay = decide_retry(
                attempts=attempted.attempts,
                age=utc_now() - delivery.created_at,
                is_rejected=failure.is_rejected,
                retry_after=failure.retry_after,
                random=random.random(),
            )
            is_final = delay is None or delivery.id is None
            now = time.monotonic()
            if is_final:
                self._finish(delivery.group_key)
            else:
                self._groups[delivery.group_key][0] = attempted
            if failure.is_rejected or failure.is_deferred:  # other groups go on
                if delay is not None and not is_final:
                    self._waiting.append((now + delay, delivery.group_key))
            else:
                self._failures += 1
                pause = find_delay(self._failures, failure.retry_after, random.random())
                self._paused_until = now + pause
                if not is_final:
                    self._ready.appendleft(delivery.group_key)
            self._condition.notify_all()
        self._results.put(DeliveryResult(delivery, str(failure), is_final))

    def _finish(self, group_key: str) -> None:
        """Go on with the next message of a group."""
        messages = self._groups[group_key]
        messages.popleft()
        if messages:
            self._ready.append(group_key)
        else:
            del self._groups[group_key]
        self._condition.notify()
