"""A local SMTP server that keeps the mails it takes."""

import email
import email.policy
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from aiosmtpd.controller import Controller


class Mailbox:
    """`refusal`: the answer to mails instead of taking them; `refused`: to addresses."""

    def __init__(self) -> None:
        self.mails: list[Any] = []
        self.refusal: str | None = None
        self.refused: dict[str, str] = {}
        self.addresses: list[list[str]] = []

    async def handle_RCPT(  # noqa: N802
        self, _: Any, __: Any, envelope: Any, address: str, ___: Any
    ) -> str:
        if address in self.refused:
            return self.refused[address]
        envelope.rcpt_tos.append(address)
        return "250 OK"

    async def handle_DATA(self, _: Any, __: Any, envelope: Any) -> str:  # noqa: N802
        if self.refusal is not None:
            return self.refusal
        self.addresses.append(list(envelope.rcpt_tos))
        policy = email.policy.default
        self.mails.append(email.message_from_bytes(envelope.content, policy=policy))
        return "250 OK"


def make_controller(mailbox: Mailbox, **options: Any) -> Controller:
    """A server on a free port of the loopback device; `options`: as aiosmtpd has them."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    return Controller(mailbox, hostname="127.0.0.1", port=port, **options)


@contextmanager
def serving_mail(mailbox: Mailbox) -> Iterator[str]:
    """A server without TLS; gives its host:port."""
    controller = make_controller(mailbox)
    controller.start()
    try:
        yield f"127.0.0.1:{controller.port}"
    finally:
        controller.stop()
