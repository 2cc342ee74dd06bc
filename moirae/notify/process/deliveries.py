"""The queues of all receivers, and what became of their messages."""

import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from queue import Empty, SimpleQueue

import sql
from moirae.config import Receiver
from moirae.notify.channels import ChannelContext, make_sender
from moirae.notify.delivery import Delivery, DeliveryResult, ReceiverQueue, Send
from sql.notifications import NotificationGateway, NotificationResult

_MAX_RESULTS = 5_000  # that are stored in one transaction


class Deliveries:
    """Delivers messages. A receiver that is slow or away delays no other."""

    def __init__(self, connection: sql.Connection, context: ChannelContext) -> None:
        self._gateway = NotificationGateway(connection)
        self._context = context
        self._queues: dict[str, ReceiverQueue] = {}
        self._declared: dict[str, Receiver] = {}
        self._results: SimpleQueue[DeliveryResult] = SimpleQueue()

    def declare(self, receivers: Mapping[str, Receiver], context: ChannelContext) -> None:
        """Deliver to these receivers from now on; messages to others stay stored."""
        is_same = context.hosts == self._context.hosts
        self._context = context
        for name, receiver in receivers.items():
            make_send: Callable[[], Send] = partial(make_sender, receiver, context)
            if name not in self._queues:
                self._queues[name] = ReceiverQueue(make_send, self._results)
            elif self._declared.get(name) != receiver or not is_same:
                self._queues[name].replace_send(make_send)
        for name in self._queues.keys() - receivers.keys():
            self._queues.pop(name).close()
        self._declared = dict(receivers)

    def put(self, deliveries: Iterable[Delivery]) -> None:
        """Queue messages; those to receivers that are not declared stay stored."""
        for delivery in deliveries:
            queue = self._queues.get(delivery.receiver)
            if queue is not None:
                queue.put(delivery)

    def take_results(self) -> list[DeliveryResult]:
        """What became of messages since the last call."""
        results: list[DeliveryResult] = []
        while len(results) < _MAX_RESULTS:
            try:
                results.append(self._results.get_nowait())
            except Empty:
                break
        return results

    def store(self, results: list[DeliveryResult]) -> None:
        """Store what became of messages, and the state of their receivers."""
        rows: dict[int, NotificationResult] = {}
        failures: Counter[str] = Counter()
        last: dict[str, str | None] = {}
        for result in results:
            delivery = result.delivery
            last[delivery.receiver] = result.error
            failures[delivery.receiver] += result.error is not None
            if delivery.id is None:
                continue
            state = "pending"
            if result.is_final:
                state = "delivered" if result.error is None else "failed"
            attempts = 1
            if delivery.id in rows:
                attempts += rows[delivery.id].attempts
            rows[delivery.id] = NotificationResult(
                delivery.id, state, attempts, result.error, result.thread
            )
        self._gateway.record(list(rows.values()))
        for receiver, error in last.items():
            if error is None:
                self._gateway.put_delivery(receiver)
            else:
                self._gateway.put_failure(receiver, failures[receiver], error)

    def close(self, timeout: float) -> None:
        """Let the threads end after what they send now, and wait for that some seconds at most."""
        for queue in self._queues.values():
            queue.close()
        deadline = time.monotonic() + timeout
        for queue in self._queues.values():
            queue.wait_until_idle(deadline)

    def count(self) -> int:
        """Messages that are queued."""
        return sum(queue.count() for queue in self._queues.values())
