"""The priority of the recall process."""

import os
import subprocess
import sys

import pytest

pytestmark = pytest.mark.processes

# Prints the niceness of its main thread and of another one.
CHILD = """
import os
import threading
from recall.worker.run import lower_priority
end = threading.Event()
thread = threading.Thread(target=end.wait)
thread.start()
lower_priority(os.getpid())
print(*[os.getpriority(os.PRIO_PROCESS, number) for number in (os.getpid(), thread.native_id)])
end.set()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="threads have no priority of their own")
def test_all_threads_of_the_process_have_a_lower_priority() -> None:
    child = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, check=True
    )
    expected = max(10, os.getpriority(os.PRIO_PROCESS, 0))
    assert child.stdout.split() == [str(expected)] * 2
