"""The HTTP API of Prometheus, and of others that have the same, as far as samples are read by it."""

import ssl
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import httpx
import orjson
import yaml

from moirae.errors import MoiraeError, TooManySamples, UsageError

_CONNECT_TIMEOUT = 10.0  # seconds
_READ_TIMEOUT = 180.0  # seconds; Prometheus itself ends a query after two minutes
_MAX_RESPONSE_BYTES = 64 << 20
_MAX_ERROR = 300  # characters
_TOO_MUCH_STATUSES = (422, 503)  # too many samples, or too much time, for one query

Labels = tuple[tuple[str, str], ...]


class StoredSeries(NamedTuple):
    """The samples of a series, each a value and milliseconds; `histograms`: how many it has too."""

    labels: Labels
    samples: Sequence[tuple[float, int]]
    histograms: int


@dataclass(frozen=True)
class Credentials:
    """What is sent with each request: a password of a user, or without a user a token."""

    secret: str
    username: str | None = None


class RemoteWriteConfig(NamedTuple):
    """What Prometheus does to series before it sends them."""

    external_labels: Mapping[str, str]
    changes_labels: bool


class PrometheusApi:
    """A server. Used as a context: it holds connections."""

    def __init__(
        self,
        url: str,
        login: Credentials | None = None,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """`transport`: None: the network. Raises `UsageError` for an invalid address."""
        parts = urlsplit(url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise UsageError(f"{url[:80]!r} is no address such as http://prometheus:9090")
        if parts.username is not None:
            raise UsageError("the address must have no user and password: use --credentials")
        self.url = url.rstrip("/")
        headers = {}
        auth = None
        if login is not None and login.username is not None:
            auth = httpx.BasicAuth(login.username, login.secret)
        elif login is not None:
            headers["Authorization"] = f"Bearer {login.secret}"
        self._client = httpx.Client(
            headers=headers,
            auth=auth,
            timeout=httpx.Timeout(_READ_TIMEOUT, connect=_CONNECT_TIMEOUT),
            transport=transport,
            # A proxy of the environment would get the password of plain HTTP in clear text.
            trust_env=parts.scheme == "https",
            verify=ssl.create_default_context() if transport is None else True,
        )

    def __enter__(self) -> "PrometheusApi":
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()

    def read_remote_write_config(self) -> RemoteWriteConfig | None:
        """What is done to series that are sent; None: the server does not say."""
        try:
            status, content = self._request("GET", "status/config")
            if status != 200:
                return None
            config = yaml.safe_load(orjson.loads(content)["data"]["yaml"])
            labels = (config.get("global") or {}).get("external_labels") or {}
            changes = [
                relabeling.get("action", "replace")
                for target in config.get("remote_write") or []
                for relabeling in target.get("write_relabel_configs") or []
            ]
        except (orjson.JSONDecodeError, yaml.YAMLError, AttributeError, KeyError, TypeError):
            return None
        external_labels = {str(name): str(value) for name, value in labels.items()}
        return RemoteWriteConfig(external_labels, bool({*changes} - {"keep", "drop"}))

    def read_samples(self, selector: str, start: int, end: int) -> list[StoredSeries]:
        """The samples after `start` up to `end`, in milliseconds.

        They are those that were stored: no step, no interpolation, no stale markers. Raises
        `TooManySamples`, `MoiraeError`.
        """
        query = f"{selector}[{end - start}ms]"
        form = {"query": query, "time": f"{end // 1000}.{end % 1000:03d}"}
        status, content = self._request("POST", "query", form)
        try:
            answer = orjson.loads(content)
            if status == 200 and answer["status"] == "success":
                return list(_read_matrix(answer["data"]["result"], start, end))
            error = str(answer["error"])
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            error = f"status {status}: {content[:_MAX_ERROR].decode(errors='replace')}"
        if status in _TOO_MUCH_STATUSES:
            raise TooManySamples(error[:_MAX_ERROR])
        raise MoiraeError(f"{self.url}: cannot read {selector}: {error[:_MAX_ERROR]}")

    def _request(
        self, method: str, path: str, form: Mapping[str, str] | None = None
    ) -> tuple[int, bytes]:
        """Status and body. Raises `TooManySamples`, `MoiraeError`."""
        content = bytearray()
        try:
            address = f"{self.url}/api/v1/{path}"
            with self._client.stream(method, address, data=form) as response:
                for part in response.iter_bytes():
                    content += part
                    if len(content) > _MAX_RESPONSE_BYTES:
                        raise TooManySamples(f"more than {_MAX_RESPONSE_BYTES >> 20} MiB")
                return response.status_code, bytes(content)
        except httpx.HTTPError as error:
            reason = str(error) or type(error).__name__
            raise MoiraeError(f"{self.url}: cannot be read: {reason}") from error


def _read_matrix(result: Any, start: int, end: int) -> Iterator[StoredSeries]:
    """The series of an answer. Servers differ in whether a range has its first moment."""
    for series in result:
        labels = tuple(sorted((str(name), str(value)) for name, value in series["metric"].items()))
        samples = []
        for seconds, value in series.get("values", ()):
            milliseconds = round(seconds * 1000)
            if start < milliseconds <= end:
                samples.append((float(value), milliseconds))
        yield StoredSeries(labels, samples, len(series.get("histograms", ())))
