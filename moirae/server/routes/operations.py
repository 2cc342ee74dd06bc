"""A route for each operation of the service layer."""

import inspect
import threading
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from fastapi import Body, FastAPI, Path, Query, Request
from starlette.responses import Response

from moirae.config import Settings
from moirae.errors import RequestRejected
from moirae.server.pool import ConnectionPool
from moirae.server.responses import json_response, read_identity
from moirae.server.route_table import RouteAccess
from moirae.server.routes.openapi import IDEMPOTENCY_KEY
from moirae.services import (
    API_PREFIX,
    LocalWorkspace,
    Operation,
    load_operations,
    run_in_child,
)

_MAX_KEY_LENGTH = 128  # characters of an Idempotency-Key
_CHILD_RETRY = 5  # seconds after which a client may retry
_CREATED = 201
_OK = 200


def add_operation_routes(app: FastAPI, runner: "OperationRunner") -> list[RouteAccess]:
    """Add the routes of all operations; returns their access in the order of matching."""
    routes = []
    # Fixed paths come before those with a parameter in the same place.
    operations = sorted(
        load_operations().values(), key=lambda entry: (entry.path.count("{"), entry.path)
    )
    for operation in operations:
        path = API_PREFIX + operation.path
        extra: dict[str, Any] = {"x-required-role": operation.role}
        if operation.changes:
            extra["parameters"] = [IDEMPOTENCY_KEY]
        app.add_api_route(
            path,
            runner.make_endpoint(operation),
            methods=[operation.method],
            response_model=operation.result_type,
            status_code=_OK,
            summary=operation.description.partition("\n")[0],
            description=_describe(operation),
            operation_id=operation.name.replace(".", "_"),
            tags=[operation.name.partition(".")[0]],
            openapi_extra=extra,
        )
        has_body = "body" in operation.parameter_types
        routes.append(
            RouteAccess(
                operation.method,
                path,
                operation.role,
                has_json_body=has_body,
                is_query=operation.is_query,
            )
        )
    return routes


def _describe(operation: Operation[..., Any]) -> str:
    text = f"{operation.description}\n\nRole: `{operation.role}`."
    if operation.is_query:
        text += " Or `viewer` with a token that allows queries."
    if operation.changes:
        text += " Recorded in the audit log; repeatable under an `Idempotency-Key`."
    return text


class OperationRunner:
    """Runs operations for requests."""

    def __init__(self, settings: Settings, pool: ConnectionPool) -> None:
        self._settings = settings
        self._pool = pool
        self._child_lock = threading.Lock()
        """Held while a child process runs: it may need the memory and CPU of a Spark driver."""

    def make_endpoint(self, operation: Operation[..., Any]) -> Any:
        """The function that FastAPI calls; its signature has the operation's parameters."""

        def endpoint(request: Request, **arguments: Any) -> Response:
            key = _read_idempotency_key(request) if operation.changes else None
            author = read_identity(request.scope).name
            return json_response(self.run(operation, arguments, author, "api", key))

        parameters = [
            inspect.Parameter("request", inspect.Parameter.KEYWORD_ONLY, annotation=Request)
        ]
        for name, parameter_type in operation.parameter_types.items():
            placement = _PLACEMENTS[operation.placement(name)]()
            annotation: Any = Annotated.__class_getitem__((parameter_type, placement))  # type: ignore[attr-defined]
            parameters.append(
                inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, annotation=annotation)
            )
        endpoint.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        return endpoint

    def run(
        self,
        operation: Operation[..., Any],
        arguments: Mapping[str, Any],
        author: str,
        via: Literal["api", "mcp"],
        key: str | None = None,
    ) -> Any:
        """The result of an operation. `key`: the idempotency key. Raises `MoiraeError`."""
        if operation.in_child:
            if not self._child_lock.acquire(blocking=False):
                raise RequestRejected(
                    429,
                    "another check, evaluation, repetition or query is in progress",
                    _CHILD_RETRY,
                )
            try:
                return run_in_child(
                    self._settings,
                    operation,
                    arguments,
                    author=author,
                    idempotency_key=key,
                )
            finally:
                self._child_lock.release()
        with self._pool.connection() as connection:
            workspace = LocalWorkspace(
                settings=self._settings,
                connection=connection,
                author=author,
                via=via,
                idempotency_key=key,
            )
            return workspace.run(operation, arguments)


_PLACEMENTS: dict[str, Any] = {"path": Path, "query": Query, "body": Body}


def _read_idempotency_key(request: Request) -> str | None:
    key = request.headers.get("idempotency-key")
    if key is None:
        return None
    is_valid = 0 < len(key) <= _MAX_KEY_LENGTH and key.isascii() and key.isprintable()
    if not is_valid or " " in key:
        raise RequestRejected(
            400,
            "invalid Idempotency-Key: use 1 to 128 printable ASCII characters without spaces",
        )
    return key
