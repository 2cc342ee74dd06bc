"""The addresses of hosts within a deadline: the system's resolver knows none."""

import socket
import threading
import time
from concurrent.futures import Future
from functools import partial

from archiver.threads import start_thread

SocketAddress = tuple[socket.AddressFamily, str, int]
"""Family, address and port."""

_lock = threading.Lock()
_pending: dict[tuple[str, int], "Future[list[SocketAddress]]"] = {}


def find_addresses(host: str, port: int, deadline: float) -> list[SocketAddress]:
    """The addresses of a host, in the order of the resolver.

    `deadline`: of the monotonic clock. Raises `TimeoutError` if the resolver has not answered by
    then, another `OSError` if it finds none. A lookup that hangs cannot be stopped: it goes on in
    its thread, and later calls for the same host wait for that one.
    """
    key = host, port
    with _lock:
        lookup = _pending.get(key)
        if lookup is None:
            lookup = _pending[key] = start_thread(partial(_look_up, host, port), f"resolve {host}")
            lookup.add_done_callback(lambda _: _pending.pop(key, None))
    return lookup.result(max(0.0, deadline - time.monotonic()))


def _look_up(host: str, port: int) -> list[SocketAddress]:
    return [
        (family, str(target[0]), int(target[1]))
        for family, _, _, _, target in socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    ]
