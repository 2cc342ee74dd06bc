"""Queues of receivers: order within a group, pauses, messages that are refused."""

import threading
import time
from datetime import UTC, datetime
from queue import SimpleQueue

import pytest

from moirae.errors import DeliveryFailed
from moirae.notify.delivery import Delivery, DeliveryResult, ReceiverQueue, retries


def make_delivery(number: int, group: str = "g") -> Delivery:
    return Delivery(
        id=number, receiver="ops", group_key=group, content={}, created_at=datetime.now(UTC)
    )


def take(results: "SimpleQueue[DeliveryResult]", count: int) -> list[DeliveryResult]:
    return [results.get(timeout=10) for _ in range(count)]


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retries, "_FIRST_DELAY", 0.02)


def test_messages_of_a_group_are_sent_in_order_also_after_failures() -> None:
    results: SimpleQueue[DeliveryResult] = SimpleQueue()
    sent: list[int | None] = []
    failures = iter([True, True])

    def send(delivery: Delivery) -> None:
        if next(failures, False):
            raise DeliveryFailed("away")
        sent.append(delivery.id)

    queue = ReceiverQueue(lambda: send, results)
    for number in range(20):
        queue.put(make_delivery(number, "g" if number % 2 else "h"))
    finals = [result for result in take(results, 22) if result.is_final]
    assert len(finals) == 20
    assert [number for number in sent if number is not None and number % 2] == list(range(1, 20, 2))
    assert queue.count() == 0
    queue.close()


def test_refused_message_delays_its_own_group_only() -> None:
    results: SimpleQueue[DeliveryResult] = SimpleQueue()

    def send(delivery: Delivery) -> str:
        if delivery.id == 1:
            raise DeliveryFailed("bad", is_rejected=True)
        return "thread"

    queue = ReceiverQueue(lambda: send, results)
    queue.put(make_delivery(1, "bad"))
    queue.put(make_delivery(2, "bad"))
    queue.put(make_delivery(3, "good"))
    outcomes = take(results, 7)
    finals = [(result.delivery.id, result.error) for result in outcomes if result.is_final]
    assert finals[0] == (3, None)
    assert finals[1:] == [(1, "bad"), (2, None)]
    queue.close()


def test_deferred_message_delays_its_own_group_only_and_is_not_given_up() -> None:
    results: SimpleQueue[DeliveryResult] = SimpleQueue()
    refusals = iter([True] * (retries.MAX_REJECTIONS + 1))

    def send(delivery: Delivery) -> None:
        if delivery.id == 1 and next(refusals, False):
            raise DeliveryFailed("later", is_deferred=True)

    queue = ReceiverQueue(lambda: send, results)
    queue.put(make_delivery(1, "deferred"))
    queue.put(make_delivery(2, "deferred"))
    queue.put(make_delivery(3, "good"))
    outcomes = take(results, 3 + retries.MAX_REJECTIONS + 1)
    finals = [(result.delivery.id, result.error) for result in outcomes if result.is_final]
    assert finals == [(3, None), (1, None), (2, None)]
    queue.close()


def test_receiver_that_fails_is_tried_by_one_message_at_a_time() -> None:
    results: SimpleQueue[DeliveryResult] = SimpleQueue()
    calls: list[float] = []

    def send(_: Delivery) -> None:
        calls.append(time.monotonic())
        raise DeliveryFailed("away", retry_after=0.2)

    queue = ReceiverQueue(lambda: send, results)
    for number in range(4):
        queue.put(make_delivery(number, str(number)))
    time.sleep(0.7)
    queue.close()
    assert 2 <= len(calls) <= 8


def test_orderly_end_waits_for_what_is_being_sent() -> None:
    results: SimpleQueue[DeliveryResult] = SimpleQueue()
    is_sending, may_end = threading.Event(), threading.Event()

    def send(_: Delivery) -> None:
        is_sending.set()
        may_end.wait(10)

    queue = ReceiverQueue(lambda: send, results)
    queue.put(make_delivery(1))
    assert is_sending.wait(10)
    queue.close()
    assert not queue.wait_until_idle(time.monotonic())
    may_end.set()
    assert queue.wait_until_idle(time.monotonic() + 10)
    assert results.get_nowait().error is None
