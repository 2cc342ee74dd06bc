"""Mail, delivered to a real SMTP server."""

import socket
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import AuthResult

from moirae.errors import DeliveryFailed
from moirae.notify.channels.email import make_mail, send_mail
from moirae.notify.channels.factory import ChannelContext, make_sender
from moirae.notify.delivery import Delivery, HostPolicy
from tests.mailbox import Mailbox, make_controller, serving_mail
from tests.unit.moirae.notify.channels.contents import make_message_content, make_receiver

pytestmark = pytest.mark.services


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    folder = tmp_path_factory.mktemp("tls")
    key, cert = folder / "key.pem", folder / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost".split()
    command += ["-addext", "subjectAltName=DNS:localhost", "-keyout", str(key), "-out", str(cert)]
    subprocess.run(command, check=True, capture_output=True)
    return key, cert


@pytest.fixture
def mailbox() -> Mailbox:
    return Mailbox()


@pytest.fixture
def server(mailbox: Mailbox, certificate: tuple[Path, Path]) -> Iterator[Controller]:
    key, cert = certificate
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(cert, key)

    def authenticate(_: Any, __: Any, ___: Any, ____: Any, data: Any) -> AuthResult:
        return AuthResult(success=(data.login, data.password) == (b"me", b"secret"))

    controller = make_controller(
        mailbox,
        tls_context=context,
        require_starttls=True,
        authenticator=authenticate,
        auth_required=True,
    )
    controller.start()
    yield controller
    controller.stop()


def make_delivery(**labels: str) -> Delivery:
    return Delivery(
        id=1,
        receiver="ops",
        group_key="k",
        content=make_message_content(**labels),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )


def send(port: int, ca: Path | None, timeout: float = 5.0, **fields: Any) -> None:
    target = {
        "to": ["a@example.org", "b@example.org"],
        "from": "Moirae <moirae@example.org>",
        "smarthost": f"localhost:{port}",
        "ca": None if ca is None else str(ca),
        "username": "me",
        "password": "secret",
        **fields,
    }
    receiver = make_receiver(email=target)
    assert receiver.email is not None
    mail = make_mail(receiver, make_delivery(), "key")
    send_mail(receiver.email, mail, HostPolicy(), timeout, receiver.email.to)


def test_mail_is_delivered_over_tls_with_text_and_html(
    server: Controller, mailbox: Mailbox, certificate: tuple[Path, Path]
) -> None:
    send(server.port, certificate[1])
    (mail,) = mailbox.mails
    assert mail["Subject"] == "[FIRING:1] Disk a"
    assert mail["Message-ID"] == "<key@example.org>"
    text = mail.get_body(("plain",)).get_content()
    page = mail.get_body(("html",)).get_content()
    assert "disk full" in text
    assert "fixed by: restart" in page


def test_certificate_and_password_are_checked(
    server: Controller, certificate: tuple[Path, Path]
) -> None:
    with pytest.raises(DeliveryFailed, match="certificate verify failed"):
        send(server.port, None)
    # The server lets a client wait that has failed to log in.
    with pytest.raises(DeliveryFailed, match=r"535|within 0.5 s"):
        send(server.port, certificate[1], timeout=0.5, password="wrong")


def test_what_a_server_does_not_offer_is_said(mailbox: Mailbox) -> None:
    with serving_mail(mailbox) as address:
        port = int(address.rpartition(":")[2])
        with pytest.raises(DeliveryFailed, match="no STARTTLS: set tls to"):
            send(port, None)
        with pytest.raises(DeliveryFailed, match="no login: remove username"):
            send(port, None, tls="none")
        send(port, None, tls="none", username=None, password=None)
    assert len(mailbox.mails) == 1


def test_refusal_of_a_mail_is_told_apart_from_one_for_now(
    server: Controller, mailbox: Mailbox, certificate: tuple[Path, Path]
) -> None:
    for refusal, is_rejected in (("554 no", True), ("451 later", False)):
        mailbox.refusal = refusal
        with pytest.raises(DeliveryFailed) as caught:
            send(server.port, certificate[1])
        assert caught.value.is_rejected is is_rejected


def test_mail_is_sent_again_only_to_addresses_that_were_refused(mailbox: Mailbox) -> None:
    with serving_mail(mailbox) as address:
        target = {"to": ["a@b.c", "d@e.f"], "from": "m@b.c", "smarthost": address, "tls": "none"}
        send = make_sender(make_receiver(email=target), ChannelContext(HostPolicy(), "w"))
        mailbox.refused = {"d@e.f": "450 later"}
        with pytest.raises(DeliveryFailed, match=r"refuses d@e\.f \(450\)") as caught:
            send(make_delivery())
        assert caught.value.is_deferred
        assert not caught.value.is_rejected
        mailbox.refused = {"d@e.f": "421 closing"}
        with pytest.raises(DeliveryFailed, match=r"421") as caught:
            send(make_delivery())
        assert not caught.value.is_deferred
        mailbox.refused = {"d@e.f": "550 unknown"}
        with pytest.raises(DeliveryFailed, match=r"refuses d@e\.f \(550\)") as caught:
            send(make_delivery())
        assert caught.value.is_rejected
        mailbox.refused = {}
        send(make_delivery())
    assert mailbox.addresses == [["a@b.c"], ["d@e.f"]]


def test_server_that_says_nothing_is_left_at_the_deadline() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        threading.Thread(target=lambda: listening.accept()[0].recv(1), daemon=True).start()
        # Without a deadline, this would wait for ever.
        with pytest.raises(DeliveryFailed, match=r"within 0\.3 s|in time"):
            send(listening.getsockname()[1], None, timeout=0.3)


def test_values_cannot_add_headers_or_markup() -> None:
    receiver = make_receiver(
        email={"to": ["a@b"], "from": "c@d", "smarthost": "h:25", "tls": "none"}
    )
    delivery = make_delivery(host="x\r\nBcc: evil@example.org", tag="<img src=x>")
    mail = make_mail(receiver, delivery, "key")
    assert mail["Bcc"] is None
    assert "\n" not in mail["Subject"]
    assert "<img" not in mail.get_body(("html",)).get_content()  # type: ignore[union-attr]


def test_mail_keeps_line_breaks_and_links_the_runbook() -> None:
    annotations = {"description": "one\ntwo <b>", "runbook_url": 'https://wiki/"x'}
    alert = make_message_content(annotations=annotations)
    receiver = make_receiver(email={"to": ["a@b.c"], "from": "m@b.c", "smarthost": "h:25"})
    delivery = Delivery(
        id=1, receiver="ops", group_key="g", content=alert, created_at=datetime.now(UTC)
    )
    html = make_mail(receiver, delivery, "k").get_body(("html",)).get_content()
    assert '<p style="white-space:pre-line">one\ntwo &lt;b&gt;</p>' in html
    assert 'runbook: <a href="https://wiki/&quot;x">' in html
    script = make_message_content(annotations={"runbook_url": "javascript:alert(1)"})
    html = make_mail(receiver, replace(delivery, content=script), "k").as_string()
    assert 'href=3D"javascript' not in html
    assert 'href="javascript' not in html
