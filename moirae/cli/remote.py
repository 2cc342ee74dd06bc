"""Commands that work on the workspace of this machine or, with `--server`, on that of a server."""

import getpass
import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from moirae.cli.options import open_workspace
from moirae.errors import UsageError

if TYPE_CHECKING:
    from moirae.services import RemoteWorkspace, ServerAddress, Workspace


@dataclass(frozen=True)
class _ServerOptions:
    """The server of a command. `url` None: the workspace of this machine."""

    url: str | None = None
    token_file: Path | None = None
    insecure: bool = False


_LOCAL = _ServerOptions()
_SERVER: ContextVar[_ServerOptions] = ContextVar("server", default=_LOCAL)
"""The options of the running command: they are common to all commands, not parameters of each."""


def accept_server(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options `--server`, `--token-file` and `--insecure` to a command."""
    signature = inspect.signature(command)
    parameters = [*signature.parameters.values(), *_SERVER_PARAMETERS]

    @wraps(command)
    def run(**values: Any) -> None:
        options = _ServerOptions(
            values.pop("server"), values.pop("token_file"), values.pop("insecure")
        )
        reset = _SERVER.set(options)
        try:
            command(**values)
        finally:
            _SERVER.reset(reset)

    keyword_only = [parameter.replace(kind=parameter.KEYWORD_ONLY) for parameter in parameters]
    run.__signature__ = signature.replace(parameters=keyword_only)  # type: ignore[attr-defined]
    return run


def _declare_server_options(
    server: Annotated[
        str | None,
        typer.Option(
            "--server",
            metavar="URL",
            help="Use the workspace of this server, such as https://moirae.example.",
        ),
    ] = None,
    token_file: Annotated[
        Path | None,
        typer.Option("--token-file", metavar="FILE", help="File of the API token for --server."),
    ] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Allow unencrypted http:// connections to other machines."),
    ] = False,
) -> None:
    """The options that `accept_server` adds, as parameters of a function."""


_SERVER_PARAMETERS = tuple(inspect.signature(_declare_server_options).parameters.values())


class RemoteTyper(typer.Typer):
    """A group of commands that accept a server."""

    def command(
        self, name: str | None = None, *, local: bool = False, **options: Any
    ) -> Callable[[Any], Any]:
        """See `typer.Typer.command`. `local`: the command is about files of this machine."""
        register = super().command(name, **options)

        def declare(command: Any) -> Any:
            register(command if local else accept_server(command))
            return command

        return declare


@contextmanager
def open_services(workspace: Path) -> "Iterator[Workspace]":
    """The workspace that operations of a command run in: of this machine, or of a server."""
    from moirae.services import LocalWorkspace

    with open_remote() as remote:
        if remote is not None:
            yield remote
            return
    with open_workspace(workspace) as (settings, connection):
        yield LocalWorkspace(
            settings=settings, connection=connection, author=getpass.getuser(), via="cli"
        )


@contextmanager
def open_remote() -> "Iterator[RemoteWorkspace | None]":
    """The workspace of the server; None without `--server`."""
    from moirae.services import open_server

    address = find_server()
    if address is None:
        yield None
        return
    with open_server(address) as opened:
        yield opened


def uses_server() -> bool:
    """Whether the command has `--server`."""
    return _SERVER.get().url is not None


def find_server() -> "ServerAddress | None":
    """The server of the command; None without `--server`."""
    from moirae.services import read_server_address

    options = _SERVER.get()
    if options.url is None:
        if options.token_file is not None or options.insecure:
            raise UsageError("--token-file and --insecure require --server")
        return None
    return read_server_address(options.url, options.token_file, insecure=options.insecure)
