"""Operations: what an operator reads or does, for the command line and the HTTP API alike.

An operation is a function of a local workspace. Its declaration adds the HTTP route and the role
that the route needs. Called with a local workspace, it runs; called with the workspace of a server,
it becomes a request to that route, with the same result and errors.
"""

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import (
    Any,
    Concatenate,
    Generic,
    Literal,
    ParamSpec,
    TypeVar,
    cast,
    get_type_hints,
)

from moirae.services.workspace import LocalWorkspace, Workspace

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Role = Literal["source", "viewer", "operator", "admin"]
"""What a token permits: posting data, nothing else; reading; also posting data and changes of alerts
and recalls; also rules and tokens."""
Method = Literal["GET", "POST", "DELETE"]
Placement = Literal["path", "query", "body"]

_PATH_PARAMETER = re.compile(r"{(\w+)(?::path)?}")


@dataclass(frozen=True, kw_only=True, eq=False)
class Operation(Generic[Parameters, Result]):
    """An operation. `path` is relative to the prefix of the API.

    A parameter named `query` is a model of the query string, one named `body` is a model of the
    request body, all others are in the path.
    """

    function: Callable[Concatenate[LocalWorkspace, Parameters], Result]
    method: Method
    path: str
    role: Role
    changes: bool
    """Whether it changes something: it is recorded in the audit log and can be repeated by key."""
    in_child: bool
    """Whether a server runs it in a child process, as it needs much memory or time."""
    has_secret_result: bool
    """Whether the result must not be stored under an idempotency key."""
    prepare: Callable[Concatenate[LocalWorkspace, Parameters], Any] | None
    """What a change needs and takes long, done before its transaction. Its result is the keyword
    argument `prepared` of the function."""
    is_query: bool
    """Whether viewers may do it whose token allows queries."""

    @property
    def name(self) -> str:
        """`alerts.acknowledge`: the module and the function."""
        return f"{self.function.__module__.rpartition('.')[2]}.{self.function.__name__}"

    @property
    def description(self) -> str:
        return inspect.getdoc(self.function) or ""

    @cached_property
    def parameter_types(self) -> Mapping[str, Any]:
        """The types of the parameters by name, without the workspace."""
        types = dict(self._hints)
        types.pop("return")
        return {name: types[name] for name in self._parameter_names}

    @cached_property
    def result_type(self) -> Any:
        return self._hints["return"]

    @cached_property
    def _parameter_names(self) -> list[str]:
        _, *names = inspect.signature(self.function).parameters
        return [name for name in names if name != "prepared"]

    @cached_property
    def _hints(self) -> Mapping[str, Any]:
        # Modules of operations name the workspace for type checks only.
        names = {"LocalWorkspace": LocalWorkspace}
        return get_type_hints(self.function, localns=names, include_extras=True)

    def placement(self, parameter: str) -> Placement:
        """Where the route has a parameter."""
        if parameter in ("query", "body"):
            return cast(Placement, parameter)
        return "path"

    def __call__(
        self, workspace: Workspace, *args: Parameters.args, **kwargs: Parameters.kwargs
    ) -> Result:
        """Run the operation. Raises `MoiraeError`."""
        arguments = dict(zip(self._parameter_names, args, strict=False)) | kwargs
        return cast(Result, workspace.run(self, arguments))


def operation(
    method: Method,
    path: str,
    *,
    role: Role,
    changes: bool | None = None,
    in_child: bool = False,
    has_secret_result: bool = False,
    prepare: Any = None,
) -> Callable[
    [Callable[Concatenate[LocalWorkspace, Parameters], Result]], Operation[Parameters, Result]
]:
    """Declare a function as an operation. `changes` None: every method but GET does."""

    def declare(
        function: Callable[Concatenate[LocalWorkspace, Parameters], Result],
    ) -> Operation[Parameters, Result]:
        return Operation(
            function=function,
            method=method,
            path=path,
            role=role,
            changes=method != "GET" if changes is None else changes,
            in_child=in_child,
            has_secret_result=has_secret_result,
            prepare=prepare,
            is_query=False,
        )

    return declare


def allow_queries(declared: Operation[Parameters, Result]) -> Operation[Parameters, Result]:
    """Let viewers do it whose token allows queries."""
    return replace(declared, is_query=True)


def path_parameters(path: str) -> list[str]:
    """The names of the parameters in a path."""
    return _PATH_PARAMETER.findall(path)
