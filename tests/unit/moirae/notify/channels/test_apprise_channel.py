"""Other channels, by apprise in a process of its own."""

from datetime import UTC, datetime

import pytest

from moirae.errors import DeliveryFailed
from moirae.notify.channels.apprise_channel import send_by_apprise
from moirae.notify.delivery import Delivery, HostPolicy
from tests.receivers import fake_receiver
from tests.unit.moirae.notify.channels.contents import make_message_content, make_receiver

pytestmark = [pytest.mark.services, pytest.mark.processes]
pytest.importorskip("apprise")


def send(url: str, allowed: list[str] | None = None) -> None:
    delivery = Delivery(
        id=1,
        receiver="ops",
        group_key="k",
        content=make_message_content(),
        created_at=datetime(2026, 1, 1, tzinfo=UTC),
    )
    send_by_apprise(make_receiver(apprise=url), delivery, HostPolicy(allowed), 30)


@pytest.mark.slow
def test_message_is_delivered_and_redirects_and_other_hosts_are_refused() -> None:
    with fake_receiver() as receiver:
        url = receiver.url.replace("http://", "json://")
        send(url)
        (request,) = receiver.requests
        assert request.json["title"] == "[FIRING:1] Disk a"
        with pytest.raises(DeliveryFailed, match="not taken"):
            send(url, ["10.0.0.0/8"])
        redirected = {"Location": f"{receiver.url}elsewhere"}
        receiver.answer = lambda _: (307, redirected, b"")
        with pytest.raises(DeliveryFailed, match="not taken"):
            send(url)
        assert [request.path for request in receiver.requests] == ["/", "/"]


@pytest.mark.parametrize(
    "url",
    [
        "syslog://",
        "json://localhost, syslog://",
        *(
            pytest.param(url, marks=pytest.mark.slow)
            for url in (" Syslog://", "dbus://", "nonsense")
        ),
    ],
)
def test_schemes_of_this_machine_are_refused(url: str) -> None:
    with pytest.raises(DeliveryFailed, match=r"refused|not a URL") as caught:
        send(url)
    assert caught.value.is_rejected
