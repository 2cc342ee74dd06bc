"""A WebSocket to a checked address, for one thread."""

import socket
import time
from contextlib import suppress
from urllib.parse import urlsplit

from wsproto import ConnectionType, WSConnection
from wsproto.events import (
    AcceptConnection,
    CloseConnection,
    Event,
    Message,
    Ping,
    RejectConnection,
    Request,
    TextMessage,
)
from wsproto.utilities import ProtocolError

from moirae.errors import DeliveryFailed
from moirae.notify.delivery import HostPolicy, open_socket

_MAX_MESSAGE = 1 << 20  # characters
_MAX_READ = 64 << 10  # bytes


class WebSocket:
    """A connection. All methods raise `DeliveryFailed` once it has ended."""

    def __init__(self, opened: socket.socket, host: str, target: str) -> None:
        self._socket = opened
        self._protocol = WSConnection(ConnectionType.CLIENT)
        self._text = ""
        self._messages: list[str] = []
        self._is_accepted = False
        self._is_active = False
        self._transmit(Request(host=host, target=target))

    @classmethod
    def open(cls, policy: HostPolicy, url: str, timeout: float) -> "WebSocket":
        """Connect, within some seconds."""
        deadline = time.monotonic() + timeout
        parts = urlsplit(url)
        scheme = "https" if parts.scheme == "wss" else "http"
        host, port = parts.hostname or "", parts.port or (443 if scheme == "https" else 80)
        target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
        connected = open_socket(policy, scheme, host, port, deadline)
        opened = cls(connected, parts.netloc.rpartition("@")[2], target)
        while not opened._is_accepted:
            if time.monotonic() > deadline:
                opened.close()
                raise DeliveryFailed(f"{host}: no answer within {timeout:g} s")
            opened._read(deadline - time.monotonic())
        return opened

    def receive(self, timeout: float) -> str | None:
        """The next text; None: none has come within some seconds."""
        if not self._messages:
            self._read(timeout)
        return self._messages.pop(0) if self._messages else None

    def take_activity(self) -> bool:
        """Whether anything has come since the last call, also pings."""
        was_active, self._is_active = self._is_active, False
        return was_active

    def send(self, text: str) -> None:
        """Send a text."""
        self._transmit(TextMessage(data=text))

    def close(self) -> None:
        """Say goodbye, if the peer still listens, and close."""
        with suppress(ProtocolError, OSError, DeliveryFailed):
            self._transmit(CloseConnection(code=1000))
        self._socket.close()

    def _read(self, timeout: float) -> None:
        """Handle what comes within some seconds."""
        try:
            self._socket.settimeout(max(0.001, timeout))
            received = self._socket.recv(_MAX_READ)
            self._protocol.receive_data(received or None)
            for event in self._protocol.events():
                self._is_active = True
                self._handle(event)
        except TimeoutError:
            return
        except (OSError, ProtocolError) as error:
            raise DeliveryFailed(f"the connection was lost: {type(error).__name__}") from error

    def _handle(self, event: Event) -> None:
        match event:
            case AcceptConnection():
                self._is_accepted = True
            case RejectConnection():
                raise DeliveryFailed(f"the WebSocket was refused with {event.status_code}")
            case CloseConnection():
                raise DeliveryFailed(f"the peer has closed the connection ({event.code})")
            case Ping():
                self._transmit(event.response())
            case TextMessage():
                self._text += event.data
                if len(self._text) > _MAX_MESSAGE:
                    raise DeliveryFailed("a message is too long")
                if event.message_finished:
                    self._messages.append(self._text)
                    self._text = ""
            case Message():
                pass  # binary ones are not for us

    def _transmit(self, event: Event) -> None:
        try:
            self._socket.sendall(self._protocol.send(event))
        except (OSError, ProtocolError) as error:
            raise DeliveryFailed(f"the connection was lost: {type(error).__name__}") from error
