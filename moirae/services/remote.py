"""A workspace at a server: operations become requests to its HTTP API."""

import ipaddress
import secrets
import ssl
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple
from urllib.parse import quote, urlsplit

import httpx
import orjson
import structlog
from pydantic import BaseModel, TypeAdapter, ValidationError

from moirae.errors import MoiraeError, Unreachable, UsageError
from moirae.services.operation import path_parameters
from moirae.services.problems import parse_problem
from moirae.services.workspace import AnyOperation, to_json

_LOG = structlog.get_logger()

API_PREFIX = "/api/v1"
_CONNECT_TIMEOUT = 10.0  # seconds
_READ_TIMEOUT = 180.0  # seconds; checks of rules start Spark
_MAX_TOKEN_BYTES = 1_000
# Seconds before each repetition of a request that the server did not answer or refused for now.
_WAITS = (0.5, 1.0, 2.0)
_MAX_WAIT = 30.0  # seconds; a server that asks for more is not waited for
_PROXY_STATUSES = (502, 503, 504)  # of a proxy whose server does not answer


class RemoteWorkspace:
    """The workspace of a server. Used as a context: it holds connections."""

    def __init__(
        self, url: str, token: str, *, transport: httpx.BaseTransport | None = None
    ) -> None:
        """`url`: of the server, without a path. `transport`: None: the network."""
        self._url = url.rstrip("/")
        self._client = httpx.Client(
            base_url=self._url,
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(_READ_TIMEOUT, connect=_CONNECT_TIMEOUT),
            transport=transport,
            # A proxy of the environment would get the token of plain HTTP in clear text.
            trust_env=self._url.startswith("https:"),
            verify=ssl.create_default_context() if transport is None else True,
        )

    def close(self) -> None:
        """Close the connections."""
        self._client.close()

    def with_author(self, author: str | None) -> "RemoteWorkspace":
        """The author of changes is the token. Raises `UsageError` for another one."""
        if author is not None:
            raise UsageError(
                "--author cannot be used with --server: the author is the token's name"
            )
        return self

    def run(self, operation: AnyOperation, arguments: Mapping[str, Any]) -> Any:
        """See `Workspace.run`."""
        path = operation.path
        for name in path_parameters(operation.path):
            value = str(arguments[name])
            if not value:
                raise UsageError(f"the {name} must not be empty")
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
            path = path.replace(f"{{{name}:path}}", quote(value, safe="/"))
        headers = {}
        content = None
        if operation.changes:
            # One key for the request and its repetitions: the change is made once.
            headers["Idempotency-Key"] = secrets.token_urlsafe(24)
        if "body" in operation.parameter_types:
            headers["Content-Type"] = "application/json"
            content = to_json(arguments["body"])
        params: list[tuple[str, Any]] = []
        if "query" in operation.parameter_types:
            params = _query_parameters(arguments["query"])
        request = self._client.build_request(
            operation.method, f"{API_PREFIX}{path}", params=params, headers=headers, content=content
        )
        # A secret result is not stored under the key: a repetition would not get it.
        waits = () if operation.has_secret_result else _WAITS
        response = self._send(request, waits)
        try:
            return TypeAdapter(operation.result_type).validate_json(response.content)
        except ValidationError as error:
            raise MoiraeError(
                f"{self._url}: unexpected response: is this a server of Moirae, and of this "
                "version?"
            ) from error

    def _send(self, request: httpx.Request, waits: Sequence[float]) -> httpx.Response:
        """The response with a result. Raises `MoiraeError`.

        `waits`: seconds before each repetition.
        """
        for wait in waits:
            try:
                with self._translate_errors():
                    response = self._client.send(request)
            except Unreachable as error:
                if isinstance(error.__cause__, httpx.ReadTimeout):
                    raise  # minutes have passed
                reason = str(error)
                retry_after = 0.0
            else:
                if not _is_busy(response) or _read_wait(response) > _MAX_WAIT:
                    return _check(response)
                reason = str(_parse_error(response))
                retry_after = _read_wait(response)
            seconds = max(wait, retry_after)
            _LOG.warning(
                f"repeating the request in {seconds:g} s: {reason}", action="request_repeated"
            )
            time.sleep(seconds)
        with self._translate_errors():
            return _check(self._client.send(request))

    def export(self, kind: str, parameters: Mapping[str, str]) -> Iterator[dict[str, Any]]:
        """The rows of an export, while they arrive."""
        with (
            self._translate_errors(),
            self._client.stream(
                "GET", f"{API_PREFIX}/export/{kind}", params=dict(parameters)
            ) as response,
        ):
            if response.status_code >= 300:
                response.read()
            _check(response)
            for line in _split_lines(response.iter_bytes()):
                yield orjson.loads(line)

    def upload(self, stream: str, name: str, suffix: str, file: IO[bytes]) -> dict[str, Any]:
        """Copy a file into a stream; returns its batch name and bytes.

        `name`: part of the batch's name. `suffix`: `.csv.gz`, format and compression.
        """
        with self._translate_errors():
            response = self._client.post(
                f"{API_PREFIX}/streams/{quote(stream, safe='')}/files",
                params={"name": name, "suffix": suffix},
                headers={"Content-Type": "application/octet-stream"},
                content=iter(lambda: file.read(1 << 20), b""),
            )
        result: dict[str, Any] = _check(response).json()
        return result

    @contextmanager
    def _translate_errors(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            raise Unreachable(f"{self._url}: {str(error) or type(error).__name__}") from error


class ServerAddress(NamedTuple):
    """Where a server is, and the token for it."""

    url: str
    token: str


def read_server_address(url: str, token_file: Path | None, *, insecure: bool) -> ServerAddress:
    """The server that options of the command line name. Raises `UsageError`."""
    _check_url(url, insecure=insecure)
    if token_file is None:
        raise UsageError("--server requires --token-file")
    return ServerAddress(url, _read_token(token_file))


@contextmanager
def open_server(address: ServerAddress) -> Iterator[RemoteWorkspace]:
    """The workspace of a server, as a context."""
    workspace = RemoteWorkspace(*address)
    try:
        yield workspace
    finally:
        workspace.close()


def _check_url(url: str, *, insecure: bool) -> None:
    parts = urlsplit(url)
    try:
        host, _ = parts.hostname, parts.port
    except ValueError:
        host = None
    has_extras = parts.path.strip("/") or parts.query or parts.fragment or parts.username
    if parts.scheme not in ("http", "https") or not host or has_extras:
        raise UsageError(
            f"--server: {url[:200]!r} is not a URL such as https://moirae.example:8765"
        )
    if parts.scheme == "http" and not insecure and not _is_loopback(host):
        raise UsageError(
            f"--server: http:// would send the token to {host} unencrypted: use https://, or "
            "--insecure"
        )


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _read_token(file: Path) -> str:
    try:
        with file.open("rb") as opened:
            token = opened.read(_MAX_TOKEN_BYTES).strip()
    except OSError as error:
        raise UsageError(f"--token-file {file}: {error.strerror}") from error
    if not token or not token.isascii() or len(token.split()) != 1:
        raise UsageError(f"--token-file {file}: not a token, as `moirae tokens create` prints it")
    return token.decode("ascii")


def _split_lines(parts: Iterator[bytes]) -> Iterator[bytes]:
    """Lines that end with a line feed.

    Not httpx's `iter_lines`: it also splits at separators that JSON text may contain, such as
    U+2028.
    """
    pending: list[bytes] = []
    for part in parts:
        *lines, rest = part.split(b"\n")
        for line in lines:
            pending.append(line)
            yield b"".join(pending)
            pending.clear()
        pending.append(rest)
    if any(pending):
        yield b"".join(pending)


def _query_parameters(query: BaseModel) -> list[tuple[str, Any]]:
    parameters: list[tuple[str, Any]] = []
    for name, value in query.model_dump(mode="json", exclude_defaults=True).items():
        values = value if isinstance(value, list) else [value]
        for item in values:
            text = str(item).lower() if isinstance(item, bool) else str(item)
            parameters.append((name, text))
    return parameters


def _is_busy(response: httpx.Response) -> bool:
    """Whether the server, or a proxy in front of it, cannot execute the request now."""
    if response.status_code == 429:
        return True
    return response.status_code >= 500 and isinstance(_parse_error(response), Unreachable)


def _read_wait(response: httpx.Response) -> float:
    """Seconds after which the request may be repeated; 0 unless the server says so."""
    try:
        return float(response.headers.get("Retry-After", 0))
    except ValueError:  # a date
        return 0.0


def _check(response: httpx.Response) -> httpx.Response:
    """The response of a request that succeeded. Raises `MoiraeError` for another."""
    if response.status_code >= 300:
        raise _parse_error(response)
    return response


def _parse_error(response: httpx.Response) -> MoiraeError:
    try:
        details = response.json()
    except ValueError:
        details = None
    if isinstance(details, dict):
        return parse_problem(details)
    message = f"{response.url}: unexpected response with status {response.status_code}"
    if response.status_code in _PROXY_STATUSES:
        return Unreachable(message)
    return MoiraeError(message)
