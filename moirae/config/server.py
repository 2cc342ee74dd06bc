"""Settings of the HTTP server."""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Literal

from pydantic import Field, field_validator

from moirae.config.durations import PositiveDuration
from moirae.config.networks import Networks
from moirae.config.paths import LocalPath
from moirae.documents.types import ConfigModel, PositiveInt, Text

_LISTEN_PATTERN = re.compile(
    r"(?P<host>\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+):(?P<port>\d{1,5})", re.ASCII
)
_URL_PATTERN = re.compile(r"https?://(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._-]+)(:\d{1,5})?/?", re.ASCII)


class Tls(ConfigModel):
    """Certificate of the HTTP server."""

    cert: LocalPath = Field(description="File of the certificate chain, in PEM format.")
    key: LocalPath = Field(description="File of the private key, in PEM format.")


class Server(ConfigModel):
    """The HTTP server."""

    listen: Text = Field(
        default="127.0.0.1:8765",
        description="host:port to listen on; port 0 selects a free port.",
    )
    hosts: tuple[Text, ...] = Field(
        default=(),
        description="Host names that requests may use, besides localhost, IP addresses and the "
        "host of url.",
    )
    tls: Tls | None = Field(default=None, description="Serve https; null: plain http.")
    proxies: Networks = Field(
        default=(),
        description="IP addresses or networks of reverse proxies whose X-Forwarded-For and "
        "X-Forwarded-Proto headers are used.",
    )
    url: Text | None = Field(
        default=None,
        description="Address of the server in links, such as https://moirae.example; null: from "
        "listen.",
    )
    requests_per_second: PositiveInt = Field(
        default=100,
        description="Requests of one token per second, on average; bursts may have ten times as "
        "many.",
    )

    agents: Literal["read", "write"] = Field(
        default="read",
        description="What agents may do at /mcp within the role of their token: read, or also "
        "acknowledge alerts, add notes, checked steps and silences, and propose resolutions.",
    )
    agent_silence: PositiveDuration = Field(
        default=timedelta(hours=4),
        description="Longest time for which an agent may hold back alerts.",
    )

    @field_validator("listen")
    @classmethod
    def _validate_listen(cls, value: str) -> str:
        match = _LISTEN_PATTERN.fullmatch(value)
        if match is None or int(match["port"]) > 65_535:
            raise ValueError(f"{value[:80]!r} is not host:port, such as 127.0.0.1:8765")
        return value

    @field_validator("url")
    @classmethod
    def _validate_url(cls, value: str | None) -> str | None:
        if value is not None and _URL_PATTERN.fullmatch(value) is None:
            raise ValueError(f"{value[:80]!r} is not a URL such as https://moirae.example")
        return value

    @property
    def public_url(self) -> str:
        """The address of the server in links, without a slash at the end."""
        if self.url is not None:
            return self.url.rstrip("/")
        scheme = "http" if self.tls is None else "https"
        return f"{scheme}://{self.listen}"

    @property
    def host(self) -> str:
        return self.listen.rpartition(":")[0].strip("[]")

    @property
    def port(self) -> int:
        return int(self.listen.rpartition(":")[2])
