"""The addresses of hosts within a deadline."""

import socket
import threading
import time
from typing import Any

import pytest

from moirae.errors import DeliveryFailed
from moirae.notify.delivery import HostPolicy, HttpClient
from moirae.notify.delivery.name_resolution import find_addresses


def test_addresses_are_found_with_their_port() -> None:
    addresses = find_addresses("127.0.0.1", 80, time.monotonic() + 5)
    assert addresses == [(socket.AF_INET, "127.0.0.1", 80)]


def test_resolver_that_hangs_is_left_at_the_deadline_and_asked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    is_answered = threading.Event()
    hosts = []

    def hang(host: str, *_: Any, **__: Any) -> Any:
        hosts.append(host)
        is_answered.wait(60)
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", hang)
    client = HttpClient(HostPolicy())
    for _ in range(2):
        with pytest.raises(DeliveryFailed, match=r"cannot resolve h\.example: no answer in time"):
            client.post("http://h.example/", b"", {}, timeout=0.05)
    assert hosts == ["h.example"]
    is_answered.set()
    with pytest.raises(DeliveryFailed, match=r"cannot resolve h\.example: Name or service"):
        client.post("http://h.example/", b"", {}, timeout=30)
