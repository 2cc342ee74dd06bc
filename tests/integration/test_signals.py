"""Signals between processes: what wakes an idle recall process."""

import threading
import time

import pytest

from recall.ledger.commands import Target, submit_command
from recall.worker import manager as manager_module
from sql.processes import BACKTEST_CHANNEL, SignalGateway, SignalListener
from sql.recalls import CommandGateway
from tests.integration.history import History
from tests.waiting import wait_until


def test_notification_of_another_connection_ends_the_wait(past: History) -> None:
    sender = SignalGateway(past.connection)
    with past.connect() as connection:
        listener = SignalListener(connection)
        assert not listener.wait(0.0)
        threading.Timer(0.1, sender.notify_recall_processes).start()
        assert listener.wait(20.0)
        assert not listener.wait(0.0)


def test_back_tests_have_a_channel_of_their_own(past: History) -> None:
    sender = SignalGateway(past.connection)
    with past.connect() as connection:
        listener = SignalListener(connection, BACKTEST_CHANNEL)
        sender.notify_recall_processes()
        assert not listener.wait(0.0)
        sender.notify_backtests()
        assert listener.wait(20.0)


def test_notification_that_arrives_with_another_statement_counts(past: History) -> None:
    with past.connect() as connection:
        listener = SignalListener(connection)
        SignalGateway(past.connection).notify_recall_processes()
        connection.execute("SELECT pg_sleep(0.1)")
        assert listener.wait(20.0)


def test_notification_is_sent_when_the_transaction_commits(past: History) -> None:
    with past.connect() as connection:
        listener = SignalListener(connection)
        with past.connection.transaction():
            SignalGateway(past.connection).notify_recall_processes()
            assert not listener.wait(0.1)
        assert listener.wait(20.0)


def test_thread_ends_the_wait(past: History) -> None:
    with past.connect() as connection:
        listener = SignalListener(connection)
        threading.Timer(0.1, listener.wake).start()
        assert listener.wait(20.0)
        listener.close()
        listener.wake()


def test_task_and_command_wake_an_idle_recall_process(
    past: History, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without polling: the interval is longer than the test."""
    monkeypatch.setattr(manager_module, "_POLL_INTERVAL", 600.0)
    stop, rounds = threading.Event(), []
    with past.manager() as manager:
        thread = threading.Thread(target=manager.run, args=(stop, lambda _: rounds.append(1)))
        thread.start()
        try:
            wait_until(lambda: bool(rounds))
            time.sleep(0.3)
            task = past.add_task(1)
            wait_until(lambda: past.task(task)["state"] == "done")
            number = submit_command(past.connection, "k", "cancel", Target(rule="r"), "ada")
            gateway = CommandGateway(past.connection)
            wait_until(lambda: gateway.effect(number) is not None)
        finally:
            stop.set()
            thread.join(20)
    assert not thread.is_alive()
