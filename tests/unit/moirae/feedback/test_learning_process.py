"""Functions in a process of their own."""

import os
import signal
from multiprocessing.connection import Connection

import pytest

from moirae.errors import MoiraeError
from moirae.feedback.learning_process import run_in_process

pytestmark = pytest.mark.processes


def kill_own_process() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def test_result_comes_from_a_process_of_lower_priority() -> None:
    assert run_in_process(os.getpriority, os.PRIO_PROCESS, 0) > os.getpriority(os.PRIO_PROCESS, 0)


@pytest.mark.slow
def test_killed_process_is_an_error() -> None:
    with pytest.raises(MoiraeError, match="exit code -9"):
        run_in_process(kill_own_process)


def test_process_killed_while_it_sends_its_result_is_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def receive_half(receiver: Connection) -> object:
        raise OSError("got end of file during message")

    monkeypatch.setattr(Connection, "recv", receive_half)
    with pytest.raises(MoiraeError, match="learning ended with exit code"):
        run_in_process(kill_own_process)
