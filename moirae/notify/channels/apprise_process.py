"""Delivers one message by apprise: `python -m moirae.notify.channels.apprise_process`.

The request is JSON at standard input. Exit code 0: delivered, 1: failed, 2: the URL is refused.
"""

import json
import logging
import socket
import sys
from collections.abc import Mapping
from typing import Any

from moirae.notify.delivery import HostPolicy

# Schemes that act on this machine, or on a file of it, instead of a service.
LOCAL_SCHEMES = frozenset(
    "dbus qt glib gnome kde macosx windows syslog file notifica gio exec script custom".split()
)


def is_local(scheme: str) -> bool:
    """Whether a scheme acts on this machine."""
    return scheme in LOCAL_SCHEMES or scheme.rstrip("s") in LOCAL_SCHEMES


def refuse_addresses(policy: HostPolicy) -> None:
    """Have each connection of this process checked when it is made."""
    names: dict[str, str] = {}
    resolve = socket.getaddrinfo

    def remember(host: Any, *args: Any, **kwargs: Any) -> Any:
        results = resolve(host, *args, **kwargs)
        for result in results:
            names[str(result[4][0])] = str(host)
        return results

    socket.getaddrinfo = remember

    def check(event: str, arguments: tuple[Any, ...]) -> None:
        if event in ("subprocess.Popen", "os.system", "os.exec", "os.posix_spawn"):
            raise PermissionError("a channel may not start programs")
        if event not in ("socket.connect", "socket.sendto"):
            return
        address = arguments[1]
        if not isinstance(address, tuple):
            raise PermissionError("a channel may not connect to a local socket")
        host = str(address[0])
        is_dns = event == "socket.sendto" or address[1] == 53
        if not is_dns and not policy.permits(names.get(host, host), host):
            raise PermissionError(f"{host} is no host to which messages are sent")

    sys.addaudithook(check)


def deliver(request: Mapping[str, Any]) -> tuple[int, str]:
    """Deliver a message; returns an exit code and a reason."""
    import apprise
    import requests

    requests.Session.resolve_redirects = lambda *_, **__: iter(())  # type: ignore[method-assign,assignment]
    # What an attacker could set in the environment of the service is not used.
    requests.Session.trust_env = False
    scheme = request["url"].partition(":")[0].strip().lower()
    if is_local(scheme):
        return 2, f"the scheme {scheme!r} acts on this machine: it is refused"
    logging.disable(logging.CRITICAL)  # its log names the URL
    refuse_addresses(HostPolicy(request["allowed"]))
    asset = apprise.AppriseAsset(async_mode=False, plugin_paths=[])
    sender = apprise.Apprise(asset=asset)
    if not sender.add(request["url"]):
        return 2, f"not a URL that apprise knows: {scheme}://…"
    # A text may hold several URLs.
    names = [name for service in sender for name in service.schemas()]  # type: ignore[no-untyped-call]
    if len(sender) != 1 or any(map(is_local, names)):
        return 2, "more than one URL, or a scheme that acts on this machine: it is refused"
    kind = (
        apprise.NotifyType.FAILURE if request["status"] == "firing" else apprise.NotifyType.SUCCESS
    )
    is_sent = sender.notify(
        title=request["title"],
        body=request["body"],
        notify_type=kind,
        body_format=apprise.NotifyFormat.TEXT,
        interpret_escapes=False,
    )
    return (0, "") if is_sent else (1, f"{scheme} has not taken the message")


def main() -> int:
    """Deliver the message at standard input."""
    code, reason = deliver(json.load(sys.stdin))
    print(reason)
    return code


if __name__ == "__main__":
    sys.exit(main())
