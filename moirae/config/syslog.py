"""Streams whose rows come as syslog messages."""

from __future__ import annotations

import re
from functools import cached_property
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from typing import NamedTuple

from pydantic import Field, field_validator, model_validator

from archiver.formats import Format
from moirae.config.networks import Networks
from moirae.config.paths import LocalPath
from moirae.config.push_sources import PushSource
from moirae.documents.types import ConfigModel, Text

_ADDRESS = re.compile(
    r"(?P<protocol>tcp|tls|udp)://(?P<host>\[[0-9A-Fa-f:.]+\]|[0-9.]+):(?P<port>\d{1,5})", re.ASCII
)


class SyslogAddress(NamedTuple):
    """Where messages are received. `protocol`: tcp, tls or udp."""

    protocol: str
    host: str
    port: int


class Syslog(ConfigModel):
    """Where syslog messages are received, and from whom."""

    listen: tuple[Text, ...] | Text = Field(
        description="Addresses, or one: tcp://, tls:// or udp://, an IP address and a port.",
        examples=["udp://127.0.0.1:1514"],
    )
    allow: Networks = Field(
        default=(),
        description="Networks whose messages are taken, such as 10.0.0.0/8. Default: this machine "
        "only, or with `clients` whoever has a certificate.",
    )
    cert: LocalPath | None = Field(
        default=None, description="With tls: file of the certificate chain, in PEM format."
    )
    key: LocalPath | None = Field(
        default=None, description="With tls: file of the private key, in PEM format."
    )
    clients: LocalPath | None = Field(
        default=None,
        description="With tls: file of the authorities whose certificates clients must have.",
    )

    @field_validator("listen")
    @classmethod
    def _validate_listen(cls, value: tuple[str, ...] | str) -> tuple[str, ...]:
        addresses = (value,) if isinstance(value, str) else value
        if not addresses:
            raise ValueError("must name an address such as tcp://127.0.0.1:1514")
        for text in addresses:
            try:
                _parse_address(text)
            except ValueError:
                raise ValueError(
                    f"{text[:80]!r} is no address such as tcp://127.0.0.1:1514"
                ) from None
        return addresses

    @model_validator(mode="after")
    def _validate_access(self) -> Syslog:
        protocols = {address.protocol for address in self.addresses}
        if "tls" in protocols and (self.cert is None or self.key is None):
            raise ValueError("tls needs `cert` and `key`")
        if self.clients is not None and protocols != {"tls"}:
            raise ValueError("`clients` needs tls for all addresses: others have no certificates")
        is_open = any(not ip_address(address.host).is_loopback for address in self.addresses)
        if is_open and not self.allow and self.clients is None:
            raise ValueError(
                "an address that other machines reach needs `allow`, networks such as 10.0.0.0/8, "
                "or with tls `clients`"
            )
        return self

    @cached_property
    def addresses(self) -> tuple[SyslogAddress, ...]:
        """The addresses of `listen`."""
        return tuple(map(_parse_address, self.listen))

    @cached_property
    def networks(self) -> tuple[IPv4Network | IPv6Network, ...]:
        """The networks of `allow`."""
        return tuple(ip_network(network, strict=False) for network in self.allow)


class SyslogSource(PushSource):
    """Messages that devices and syslog daemons send, by RFC 5424 or RFC 3164.

    A row has the fields of the format `syslog`. There is no answer: see what the source promises.
    """

    syslog: Syslog = Field(description="Where messages are received, and from whom.")

    @property
    def record_format(self) -> Format:
        """See `PushSource.record_format`."""
        return Format("syslog")


def _parse_address(text: str) -> SyslogAddress:
    """Raises `ValueError`."""
    match = _ADDRESS.fullmatch(text)
    if match is None or int(match["port"]) > 65_535:
        raise ValueError
    host = match["host"].strip("[]")
    ip_address(host)
    return SyslogAddress(match["protocol"], host, int(match["port"]))
