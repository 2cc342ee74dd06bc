"""Presses of Slack's buttons by Socket Mode: a WebSocket that this process opens."""

import threading
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import orjson

from moirae.config.receivers import SlackTarget
from moirae.errors import DeliveryFailed
from moirae.notify.delivery import HostPolicy, HttpClient
from moirae.notify.inbound.acknowledgements import Acknowledgement, read_slack_payload
from moirae.notify.inbound.websocket import WebSocket

_TIMEOUT = 10.0  # seconds for a request, and for opening the connection
_STORE_TIMEOUT = 2.5  # seconds; Slack waits 3 s for the acknowledgement of an envelope
_MAX_SILENCE = 90.0  # seconds; Slack sends a ping every few seconds
_POLL = 0.5  # seconds between looks for a requested stop


class SlackSocket:
    """One connection of an app at a time."""

    def __init__(
        self,
        target: SlackTarget,
        hosts: HostPolicy,
        report: Callable[[Acknowledgement], threading.Event],
    ) -> None:
        self._target = target
        self._hosts = hosts
        self._client = HttpClient(hosts)
        self._report = report

    def listen(self, stop: threading.Event, note_success: Callable[[], None]) -> None:
        """Take presses until a stop is requested, or Slack has the connection opened again.

        Raises `DeliveryFailed`.
        """
        socket = WebSocket.open(self._hosts, self._request_address(), _TIMEOUT)
        heard_at = time.monotonic()
        try:
            while not stop.is_set():
                text = socket.receive(_POLL)
                if socket.take_activity():
                    heard_at = time.monotonic()
                elif time.monotonic() - heard_at > _MAX_SILENCE:
                    raise DeliveryFailed(f"Slack has sent nothing for {_MAX_SILENCE:g} s")
                if text is not None and not self._take(socket, text, note_success):
                    return
        finally:
            socket.close()

    def _request_address(self) -> str:
        """The address of a connection. Raises `DeliveryFailed`."""
        assert self._target.app_token is not None
        headers = {
            "Authorization": f"Bearer {self._target.app_token.get_secret_value()}",
            "Content-Type": "application/x-www-form-urlencoded",
        }
        answer = self._client.post(
            f"{self._target.api}/apps.connections.open", b"", headers, timeout=_TIMEOUT
        )
        try:
            body = orjson.loads(answer.body)
        except orjson.JSONDecodeError:
            raise DeliveryFailed("Slack's answer is not JSON") from None
        if not isinstance(body, dict) or not body.get("ok"):
            error = str(body.get("error") if isinstance(body, dict) else body)[:100]
            raise DeliveryFailed(f"Slack refuses Socket Mode: {error}")
        address = str(body.get("url"))
        check_address(self._target.api, address)
        return address

    def _take(self, socket: WebSocket, text: str, note_success: Callable[[], None]) -> bool:
        """Handle a message; returns whether the connection goes on."""
        envelope = _read_envelope(text)
        kind = envelope.get("type")
        if kind == "hello":
            note_success()
        if kind == "disconnect":
            return False
        identity = envelope.get("envelope_id")
        if not isinstance(identity, str):
            return True
        if kind == "interactive":
            acknowledgement = read_slack_payload(envelope.get("payload"))
            if acknowledgement is not None:
                stored = self._report(acknowledgement)
                if not stored.wait(_STORE_TIMEOUT):
                    return True  # Slack delivers it again
        socket.send(orjson.dumps({"envelope_id": identity}).decode())
        return True


def check_address(api: str, address: str) -> None:
    """Raises `DeliveryFailed` unless an address is of the domain of Slack's API, and as safe."""
    parts, declared = urlsplit(address), urlsplit(api)
    scheme = "wss" if declared.scheme == "https" else "ws"
    host, domain = parts.hostname or "", declared.hostname or ""
    if domain.count(".") > 1 and not domain.replace(".", "").isdigit():
        domain = ".".join(domain.split(".")[-2:])
    if parts.scheme not in ("wss", scheme) or not (host == domain or host.endswith(f".{domain}")):
        raise DeliveryFailed(
            f"Slack names {host[:100]!r} for Socket Mode, which is not of {domain}"
        )


def _read_envelope(text: str) -> dict[str, Any]:
    try:
        envelope = orjson.loads(text)
    except orjson.JSONDecodeError:
        return {}
    return envelope if isinstance(envelope, dict) else {}
