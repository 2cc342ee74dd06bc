"""A workspace that operations run in: its database and settings, and who acts.

Each change is one transaction with its line in the audit log and the response under its
idempotency key.
"""

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol

import orjson
from pydantic import BaseModel, TypeAdapter

import sql
from moirae.config import Settings
from moirae.errors import Conflict, UsageError
from moirae.services.models import find_text_problem
from sql.access import AuditGateway


class AnyOperation(Protocol):
    """What a workspace needs to know about an operation; see `moirae.services.operation`."""

    @property
    def name(self) -> str: ...
    @property
    def method(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def changes(self) -> bool: ...
    @property
    def has_secret_result(self) -> bool: ...
    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def prepare(self) -> Callable[..., Any] | None: ...
    @property
    def parameter_types(self) -> Mapping[str, Any]: ...
    @property
    def result_type(self) -> Any: ...


class Workspace(Protocol):
    """Where operations run: here, or at a server."""

    def run(self, operation: AnyOperation, arguments: Mapping[str, Any]) -> Any:
        """The result of an operation. Raises `MoiraeError`."""
        ...

    def with_author(self, author: str | None) -> "Workspace":
        """The workspace with another author of changes; None: unchanged. Raises `UsageError`."""
        ...


@dataclass(frozen=True, kw_only=True)
class LocalWorkspace:
    """A workspace whose database this process uses. `via`: where changes come from."""

    settings: Settings
    connection: sql.Connection
    author: str
    via: Literal["cli", "api", "mcp"]
    idempotency_key: str | None = None

    def with_author(self, author: str | None) -> "LocalWorkspace":
        """See `Workspace.with_author`."""
        return self if author is None else replace(self, author=author)

    def record_use(self, operation: str, arguments: Mapping[str, Any]) -> None:
        """Record in the audit log what changes nothing, such as a question of an agent."""
        audit = AuditGateway(self.connection)
        audit.insert(self.author, self.via, operation, orjson.loads(to_json(dict(arguments))))

    def run(self, operation: AnyOperation, arguments: Mapping[str, Any]) -> Any:
        """See `Workspace.run`."""
        if not self.author.strip():
            raise UsageError("author: must not be blank")
        for name, value in {"author": self.author, **arguments}.items():
            if isinstance(value, str) and (problem := find_text_problem(value)):
                raise UsageError(f"{name}: {problem}")
        if not operation.changes:
            return operation.function(self, **arguments)
        recorded = to_json({"operation": operation.name, "arguments": dict(arguments)})
        digest = hashlib.sha256(recorded).digest()
        if self.idempotency_key is not None:
            stored = self._find_response(operation, digest)
            if stored is not None:
                return stored
        prepared = {}
        if operation.prepare is not None:
            prepared["prepared"] = operation.prepare(self, **arguments)
        with self.connection.transaction():
            return self._change(operation, arguments, prepared, digest)

    def _change(
        self,
        operation: AnyOperation,
        arguments: Mapping[str, Any],
        prepared: Mapping[str, Any],
        digest: bytes,
    ) -> Any:
        audit = AuditGateway(self.connection)
        key = self.idempotency_key
        if key is not None and not audit.insert_request(self.author, key, operation.name, digest):
            return self._find_response(operation, digest)
        result = operation.function(self, **arguments, **prepared)
        audit.insert(self.author, self.via, operation.name, orjson.loads(to_json(dict(arguments))))
        if key is not None and not operation.has_secret_result:
            audit.record_response(self.author, key, orjson.loads(to_json(result)))
        return result

    def _find_response(self, operation: AnyOperation, digest: bytes) -> Any:
        """The response of an earlier change under the key; None: the key is new.

        Raises `Conflict` if the key belongs to another change.
        """
        assert self.idempotency_key is not None
        request = AuditGateway(self.connection).get_request(self.author, self.idempotency_key)
        if request is None:
            return None
        if request.digest != digest:
            raise Conflict("Idempotency-Key already used for a different change")
        if request.response is None:
            raise Conflict("Idempotency-Key already used; the response is secret and not stored")
        return TypeAdapter(operation.result_type).validate_python(request.response)


def to_json(value: Any) -> bytes:
    """A result or argument as JSON. Times are in UTC with `Z`; durations are in seconds."""
    return orjson.dumps(
        value, default=_json_default, option=orjson.OPT_UTC_Z | orjson.OPT_NON_STR_KEYS
    )


def _json_default(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_none=True)
    if hasattr(value, "total_seconds"):
        return value.total_seconds()
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return str(value)
