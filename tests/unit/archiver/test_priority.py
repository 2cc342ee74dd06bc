"""The priority of processes that let others go first."""

import os
import subprocess
import sys

import pytest

pytestmark = [
    pytest.mark.processes,
    pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own"),
]

# Prints the niceness of its main thread and of another one, and twice that of its session.
THREADS = """
import os
import threading
from archiver.priority import lower_priority, set_session_niceness
end = threading.Event()
thread = threading.Thread(target=end.wait)
thread.start()
lower_priority(10)
print(*[os.getpriority(os.PRIO_PROCESS, number) for number in (os.getpid(), thread.native_id)])
def read_session() -> int:
    if not os.path.exists("/proc/self/autogroup"):
        return 10
    return int(open("/proc/self/autogroup").read().split()[-1])
print(read_session())
set_session_niceness(19)
set_session_niceness(10)
print(read_session())
end.set()
"""


def run_child(code: str) -> list[str]:
    child = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    return child.stdout.split()


def test_all_threads_of_the_process_and_its_session_have_a_lower_priority() -> None:
    expected = max(10, os.getpriority(os.PRIO_PROCESS, 0))
    assert run_child(THREADS) == [str(expected)] * 2 + ["10"] * 2
