"""WebSockets: opened, refused, and silent."""

import pytest

from moirae.errors import DeliveryFailed
from moirae.notify.delivery import HostPolicy
from moirae.notify.inbound.websocket import WebSocket
from tests.receivers import fake_receiver
from tests.slack_socket import local_slack


def test_server_that_speaks_no_websocket_is_refused() -> None:
    with fake_receiver() as server, pytest.raises(DeliveryFailed, match="refused with 200"):
        WebSocket.open(HostPolicy(None), server.url.replace("http", "ws"), 5)


def test_host_that_is_not_listed_is_refused() -> None:
    with pytest.raises(DeliveryFailed, match="not listed"):
        WebSocket.open(HostPolicy(["slack.com"]), "ws://127.0.0.1:9/", 5)


def test_nothing_comes_within_the_time() -> None:
    with local_slack() as slack:
        assert slack.address is not None
        opened = WebSocket.open(HostPolicy(None), slack.address, 5)
        assert opened.receive(5) is not None  # hello
        assert opened.take_activity()
        assert opened.receive(0.01) is None
        assert not opened.take_activity()
        opened.close()
