"""Runs an operation in a child process: it may need much memory or time, as Spark does.

The child is this module, started as a program: it reads a request from standard input and writes
the result or the problem to standard output.
"""

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import orjson
from pydantic import TypeAdapter

from moirae.config import Settings, load_settings_from_environment
from moirae.errors import MoiraeError
from moirae.services.load import load_operations
from moirae.services.operation import Operation
from moirae.services.problems import describe_error, explain_error, parse_problem
from moirae.services.workspace import LocalWorkspace, to_json

_TIMEOUT = 150.0  # seconds
_NICENESS = 5  # the server and the live process come first


def run_in_child(
    settings: Settings,
    operation: Operation[..., Any],
    arguments: Mapping[str, Any],
    *,
    author: str,
    idempotency_key: str | None,
) -> Any:
    """The result of an operation, as JSON values. Raises `MoiraeError`."""
    request = {
        "workspace": str(settings.file),
        "operation": operation.name,
        "arguments": dict(arguments),
        "author": author,
        "idempotency_key": idempotency_key,
    }
    response = _start_child(to_json(request))
    if "problem" in response:
        raise parse_problem(response["problem"])
    return response["result"]


def _start_child(request: bytes) -> dict[str, Any]:
    """The response of a child process to a request. Raises `MoiraeError`."""
    try:
        # The child is this program: no input of the request is part of the command line.
        finished = subprocess.run(
            [sys.executable, "-m", "moirae.services.child"],
            input=request,
            stdout=subprocess.PIPE,
            timeout=_TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise MoiraeError(f"the operation did not finish within {_TIMEOUT:.0f} s") from error
    try:
        response: dict[str, Any] = orjson.loads(finished.stdout.rpartition(b"\n")[2])
    except ValueError as error:
        raise MoiraeError(_describe_end(finished.returncode)) from error
    return response


def _describe_end(code: int) -> str:
    """Why there is no response. The trace of a failure is in the log of the server."""
    if code < 0:
        return f"the process of the operation was killed by signal {-code}, perhaps out of memory"
    return f"the operation failed unexpectedly with exit code {code}: see the log of the server"


def run_request(content: bytes) -> bytes:
    """The response to a request, both as JSON."""
    from moirae.runtime import connect_database

    request = orjson.loads(content)
    try:
        settings = load_settings_from_environment(Path(request["workspace"]))
        operation = load_operations()[request["operation"]]
        arguments = {
            name: TypeAdapter(operation.parameter_types[name]).validate_python(value)
            for name, value in request["arguments"].items()
        }
        with connect_database(settings, "server child") as connection:
            workspace = LocalWorkspace(
                settings=settings,
                connection=connection,
                author=request["author"],
                via="api",
                idempotency_key=request["idempotency_key"],
            )
            return to_json({"result": workspace.run(operation, arguments)})
    except Exception as error:
        explained = explain_error(error)
        if explained is None:
            raise
        return to_json({"problem": describe_error(explained)})


def main() -> None:
    """Run the operation that standard input describes."""
    os.nice(_NICENESS)
    response = run_request(sys.stdin.buffer.read())
    # Libraries may print; only the last line is the response.
    sys.stdout.buffer.write(b"\n" + response)
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
