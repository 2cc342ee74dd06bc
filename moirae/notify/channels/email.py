"""Mail by SMTP, as text and HTML."""

import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from email.message import EmailMessage
from email.utils import format_datetime, parseaddr
from hashlib import sha256
from typing import Any

from cachetools import LRUCache

from moirae.config import Receiver
from moirae.config.receivers import EmailTarget
from moirae.errors import DeliveryFailed, first_line
from moirae.notify.channels.rendering import (
    escape_html,
    render_body,
    render_title,
)
from moirae.notify.delivery import Delivery, HostPolicy, connect, watch_deadline

_SERVICE_CLOSES = 421  # SMTP code: the server takes no mail at all for now
_PERMANENT = 500  # codes of SMTP from which on a refusal is not for now
_MAX_PARTIAL = 10_000  # messages of which is remembered who was sent them
_STYLE = "font-family:sans-serif;font-size:14px;color:#222;overflow-wrap:anywhere"
_HEADING_STYLE = "border-top:1px solid #ddd;padding-top:8px;white-space:pre-line"
_TEXT_STYLE = "white-space:pre-line"  # line breaks of annotations
# Mail programs give tables a font of their own.
_TABLE_STYLE = "font-size:14px;word-break:break-word"


def make_mail(receiver: Receiver, delivery: Delivery, key: str) -> EmailMessage:
    """The mail of a message. `key`: stays when it is sent again. Mails of a group are a thread."""
    target = receiver.email
    assert target is not None
    mail = EmailMessage()
    mail["Subject"] = render_title(receiver, delivery.content)
    mail["From"] = target.from_
    mail["To"] = ", ".join(target.to)
    mail["Date"] = format_datetime(delivery.created_at)
    domain = parseaddr(target.from_)[1].rpartition("@")[2] or "moirae"
    group = sha256(delivery.group_key.encode("utf-8", "replace")).hexdigest()[:32]
    mail["Message-ID"] = f"<{key or group}@{domain}>"
    mail["References"] = f"<{group}@{domain}>"
    mail["Auto-Submitted"] = "auto-generated"
    mail.set_content(render_body(receiver, delivery.content))
    body = render_body(receiver, delivery.content, escape_html, format_alert)
    mail.add_alternative(f'<div style="{_STYLE}">{body}</div>', subtype="html")
    return mail


def format_alert(alert: Mapping[str, Any]) -> str:
    """An alert in HTML; its values are escaped."""
    color = "#b3261e" if alert["status"] == "firing" else "#2e7d32"
    labels = "".join(
        f"<tr><td>{name}</td><td><b>{value}</b></td></tr>"
        for name, value in sorted(alert["labels"].items())
        if name != "alertname"
    )
    texts = "".join(f'<p style="{_TEXT_STYLE}">{text}</p>' for text in alert["texts"])
    runbook = alert["annotations"].get("runbook_url", "")
    if runbook.startswith(("http://", "https://")):
        runbook = f'<a href="{runbook}">{runbook}</a>'
    if runbook:
        texts += f'<p style="{_TEXT_STYLE}">runbook: {runbook}</p>'
    history = "".join(f"<li>{line}</li>" for line in alert["history"])
    if history:
        history = f"<ul>{history}</ul>"
    actions = "".join(
        f' · <a href="{escape_html(action["link"])}">{escape_html(action["label"])}</a>'
        for action in alert["actions"]
    )
    return (
        f'<h3 style="{_HEADING_STYLE};color:{color}">{alert["lead"]}</h3>{texts}{history}'
        f'<table style="{_TABLE_STYLE}">{labels}</table>'
        f'<p>{alert["period"]} · <a href="{escape_html(alert["link"])}">Open the alert</a>{actions}</p>'
    )


def _find_own_name(opened: socket.socket) -> str:
    """How this machine names itself in SMTP: by its full name, or by its address."""
    name = socket.gethostname()
    if "." in name:
        return name
    address = opened.getsockname()[0]
    return f"[IPv6:{address}]" if opened.family == socket.AF_INET6 else f"[{address}]"


class _CheckedSmtp(smtplib.SMTP):
    """A connection to a checked address."""

    def __init__(self, opened: socket.socket, timeout: float) -> None:
        self._opened = opened
        # Without a name, smtplib asks the resolver for one, which may hang.
        super().__init__(local_hostname=_find_own_name(opened), timeout=timeout)

    def _get_socket(self, *_: Any) -> socket.socket:
        return self._opened


class AcceptedAddresses:
    """Who has been sent mails that other addresses were refused; used by the threads of receivers.

    When such a mail is sent again, it is sent to the others only.
    """

    def __init__(self) -> None:
        self._by_message: LRUCache[tuple[str, int | None], frozenset[str]] = LRUCache(_MAX_PARTIAL)
        self._lock = threading.Lock()

    def list_missing(self, delivery: Delivery, addresses: Sequence[str]) -> Sequence[str]:
        """The addresses that have not been sent a message."""
        with self._lock:
            accepted = self._by_message.get((delivery.receiver, delivery.id), frozenset())
        return [address for address in addresses if address not in accepted]

    def add(self, delivery: Delivery, addresses: Iterable[str]) -> None:
        """Note addresses that have been sent a message."""
        key = delivery.receiver, delivery.id
        with self._lock:
            self._by_message[key] = self._by_message.get(key, frozenset()) | frozenset(addresses)


def send_mail(
    target: EmailTarget,
    mail: EmailMessage,
    hosts: HostPolicy,
    timeout: float,
    addresses: Sequence[str],
) -> Mapping[str, int]:
    """Deliver a mail; returns the addresses that the server refuses, with its codes.

    `timeout`: seconds for all of it. Raises `DeliveryFailed`, also if all are refused.
    """
    deadline = time.monotonic() + timeout
    context = ssl.create_default_context(cafile=target.ca)
    opened = connect(hosts, target.host, target.port, deadline)
    try:
        with watch_deadline(opened, deadline):
            if target.tls == "implicit":
                opened = context.wrap_socket(opened, server_hostname=target.host)
            smtp = _CheckedSmtp(opened, max(0.1, deadline - time.monotonic()))
            # The name that certificates are checked for.
            smtp._host = target.host  # type: ignore[attr-defined]
            _check_greeting(smtp.connect(target.host, target.port))
            if target.tls == "starttls":
                smtp.starttls(context=context)
        assert smtp.sock is not None
        with watch_deadline(smtp.sock, deadline):
            if target.username is not None:
                password = target.password.get_secret_value() if target.password else ""
                smtp.login(target.username, password)
            refused = smtp.send_message(
                mail, from_addr=parseaddr(target.from_)[1], to_addrs=addresses
            )
            smtp.quit()
    except smtplib.SMTPResponseException as error:
        is_rejected = error.smtp_code in (550, 552, 553, 554)
        raise DeliveryFailed(_describe(target, error), is_rejected=is_rejected) from error
    except smtplib.SMTPRecipientsRefused as error:
        raise describe_refused(target, _list_codes(error.recipients)) from error
    except (OSError, smtplib.SMTPException) as error:
        if time.monotonic() >= deadline:
            raise DeliveryFailed(f"no answer from {target.host} within {timeout:g} s") from error
        raise DeliveryFailed(_describe(target, error)) from error
    finally:
        opened.close()
    return _list_codes(refused)


def _list_codes(refused: Mapping[str, tuple[int, bytes]]) -> dict[str, int]:
    return {address: code for address, (code, _) in refused.items()}


def describe_refused(target: EmailTarget, refused: Mapping[str, int]) -> DeliveryFailed:
    """The error of a mail that some addresses are refused."""
    names = ", ".join(f"{address} ({code})" for address, code in sorted(refused.items()))
    reason = f"{target.host} refuses {names}"
    is_rejected = min(refused.values()) >= _PERMANENT
    is_deferred = not is_rejected and _SERVICE_CLOSES not in refused.values()
    return DeliveryFailed(reason, is_rejected=is_rejected, is_deferred=is_deferred)


def _check_greeting(answer: tuple[int, bytes]) -> None:
    code, text = answer
    if code != 220:
        raise smtplib.SMTPResponseException(code, text)


def _describe(target: EmailTarget, error: Exception) -> str:
    if isinstance(error, smtplib.SMTPNotSupportedError):
        if "STARTTLS" in str(error):
            return f"{target.host} offers no STARTTLS: set tls to implicit or none"
        return f"{target.host} offers no login: remove username and password"
    if isinstance(error, smtplib.SMTPResponseException):
        return f"{target.host} answered {error.smtp_code}"
    return f"{target.host}: {first_line(error)}"
