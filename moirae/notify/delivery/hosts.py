"""To which hosts messages are sent. Addresses are checked when a connection is made."""

from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import (
    IPv4Address,
    IPv6Address,
    ip_address,
    ip_network,
)

from moirae.errors import DeliveryFailed
from moirae.notify.delivery.name_resolution import SocketAddress, find_addresses

Address = IPv4Address | IPv6Address

# Addresses at which clouds tell a machine its credentials, beside the link-local ones.
_METADATA = frozenset(
    map(
        ip_address,
        ("fd00:ec2::254", "fd20:ce::254", "100.100.100.200", "192.0.0.192", "168.63.129.16"),
    )
)
_NAT64 = ip_network("64:ff9b::/96")
_LOCAL_NAT64 = ip_network("64:ff9b:1::/48")  # of a network's own gateway
_COMPATIBLE = ip_network("::/96")


@dataclass(frozen=True)
class HostPolicy:
    """`allowed`: names of hosts, addresses and networks, and no others; None: all but link-local
    and metadata addresses. The configuration names the hosts to which anything is sent.
    """

    allowed: Sequence[str] | None = None

    def resolve(self, host: str, port: int, deadline: float) -> list[SocketAddress]:
        """The addresses of a host to which a connection may be made. Raises `DeliveryFailed`.

        `deadline`: of the monotonic clock.
        """
        try:
            resolved = find_addresses(host, port, deadline)
        except TimeoutError as error:
            raise DeliveryFailed(f"cannot resolve {host}: no answer in time") from error
        except OSError as error:
            raise DeliveryFailed(f"cannot resolve {host}: {error.strerror or error}") from error
        addresses = [target for target in resolved if self.permits(host, target[1])]
        if not addresses:
            listed = " or not listed" if self.allowed is not None else ""
            raise DeliveryFailed(
                f"{host} is link-local, a metadata address{listed}: list it under allow_hosts if "
                "it is meant"
            )
        return addresses

    def permits(self, host: str, text: str) -> bool:
        """Whether a connection to an address of a host may be made."""
        address = _unwrap(ip_address(text.partition("%")[0]))
        if self.allowed is not None:
            return any(_is_listed(host, address, entry) for entry in self.allowed)
        return not is_forbidden(address)


def is_forbidden(address: Address) -> bool:
    """Whether an address is one to which nothing is sent unless it is listed."""
    return (
        address.is_link_local
        or address.is_multicast
        or address.is_unspecified
        or address in _METADATA
    )


def _unwrap(address: Address) -> Address:
    """An IPv4 address that is written as an IPv6 address."""
    if not isinstance(address, IPv6Address):
        return address
    if (
        address in _NAT64
        or address in _LOCAL_NAT64
        or (address in _COMPATIBLE and int(address) > 1)
    ):
        return IPv4Address(int(address) & 0xFFFFFFFF)
    embedded = address.ipv4_mapped or address.sixtofour
    if embedded is None and address.teredo is not None:
        embedded = address.teredo[1]
    return embedded or address


def _is_listed(host: str, address: Address, entry: str) -> bool:
    if entry.strip("[]").lower() == host.lower():
        # The name of a host does not vouch for whatever it resolves to.
        try:
            ip_address(host)
        except ValueError:
            return not is_forbidden(address)
        return True
    try:
        return address in ip_network(entry, strict=False)
    except ValueError:
        return False
