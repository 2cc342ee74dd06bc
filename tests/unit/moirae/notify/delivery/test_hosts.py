"""To which addresses a connection may be made."""

import time

import pytest

from moirae.errors import DeliveryFailed
from moirae.notify.delivery import HostPolicy


@pytest.mark.parametrize(
    ("allowed", "host", "address", "is_permitted"),
    [
        (None, "h", "10.0.0.1", True),
        (None, "h", "127.0.0.1", True),
        (None, "h", "169.254.169.254", False),
        (None, "h", "::ffff:169.254.169.254", False),
        (None, "h", "::169.254.169.254", False),
        (None, "h", "64:ff9b::a9fe:a9fe", False),
        (None, "h", "64:ff9b::a00:1", True),
        (None, "h", "64:ff9b:1::a9fe:a9fe", False),
        (None, "h", "64:ff9b:1::a00:1", True),
        (None, "h", "2002:a9fe:a9fe::1", False),
        (None, "h", "2001:0:1:1:0:0:5601:5601", False),
        (None, "h", "::1", True),
        (None, "h", "168.63.129.16", False),
        (None, "h", "fe80::1", False),
        (None, "h", "fd00:ec2::254", False),
        (None, "h", "0.0.0.0", False),
        (["10.0.0.0/8"], "h", "10.0.0.1", True),
        (["10.0.0.0/8"], "h", "11.0.0.1", False),
        (["h"], "h", "11.0.0.1", True),
        (["h"], "h", "169.254.169.254", False),
        (["169.254.0.0/16"], "h", "169.254.169.254", True),
        (["169.254.169.254"], "169.254.169.254", "169.254.169.254", True),
    ],
)
def test_addresses_are_checked(
    allowed: list[str] | None, host: str, address: str, is_permitted: bool
) -> None:
    assert HostPolicy(allowed).permits(host, address) is is_permitted


def test_host_that_resolves_to_a_forbidden_address_is_refused() -> None:
    with pytest.raises(DeliveryFailed, match="allow_hosts"):
        HostPolicy().resolve("169.254.169.254", 80, time.monotonic() + 5)
