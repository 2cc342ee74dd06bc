"""Other channels, through apprise in a process of its own.

Its plugins connect as they like: there, a hook checks each address, and the time of the process is
limited.
"""

import json
import subprocess
import sys
from importlib.util import find_spec

from moirae.config import Receiver
from moirae.errors import DeliveryFailed
from moirae.notify.channels.rendering import escape_mentions, render_body, render_title
from moirae.notify.delivery import Delivery, HostPolicy

_MAX_SHOWN = 200  # characters of an error
_MAX_BODY = 10_000  # characters


def send_by_apprise(
    receiver: Receiver, delivery: Delivery, hosts: HostPolicy, timeout: float
) -> None:
    """Deliver a message. Raises `DeliveryFailed`."""
    assert receiver.apprise is not None
    if find_spec("apprise") is None:
        raise DeliveryFailed(
            "apprise is not installed: run `pip install moirae-monitoring[apprise]`"
        )
    request = {
        "url": receiver.apprise.get_secret_value(),
        "title": escape_mentions(render_title(receiver, delivery.content)),
        "body": render_body(receiver, delivery.content, escape_mentions)[:_MAX_BODY],
        "status": delivery.content["status"],
        "allowed": None if hosts.allowed is None else list(hosts.allowed),
    }
    try:
        # By standard input: the URL, which is a secret, is no argument.
        done = subprocess.run(
            [sys.executable, "-m", "moirae.notify.channels.apprise_process"],
            input=json.dumps(request).encode(),
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise DeliveryFailed(f"apprise has not delivered within {timeout:g} s") from None
    if done.returncode:
        reason = done.stdout.decode("utf-8", "replace").strip()[:_MAX_SHOWN]
        is_rejected = done.returncode == 2
        raise DeliveryFailed(f"apprise: {reason or 'failed'}", is_rejected=is_rejected)
