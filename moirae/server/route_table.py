"""Which role each route needs, and which routes accept a JSON body. No I/O."""

from collections.abc import Iterable
from dataclasses import dataclass

from starlette.routing import compile_path

from moirae.services import Role

SAFE_METHODS = frozenset({"GET", "HEAD"})
INGEST_PREFIX = "/api/v1/ingest/"
_PROGRAM_PREFIXES = ("/api/", "/-/", "/static/")  # of addresses that are no pages


@dataclass(frozen=True)
class RouteAccess:
    """Access to a route. `role` None: no token is needed. `reads_body`: it checks its body itself.

    `overload_status`: of the answer to too many requests of a token. `has_rpc_errors`: errors are
    answered as a `google.rpc.Status`. `is_query`: viewers whose token allows queries may use it.
    """

    method: str
    path: str
    role: Role | None
    has_json_body: bool = False
    reads_body: bool = False
    overload_status: int = 429
    has_rpc_errors: bool = False
    is_query: bool = False


_INGEST = RouteAccess("POST", INGEST_PREFIX + "{stream}", "source", reads_body=True)
_PROBES = (RouteAccess("GET", "/-/healthy", None), RouteAccess("GET", "/-/ready", None))


class RouteTable:
    """The routes of the server in the order in which they match."""

    def __init__(self, routes: Iterable[RouteAccess] = ()) -> None:
        self._routes = [
            (compile_path(route.path)[0], route) for route in (*_PROBES, _INGEST, *routes)
        ]

    def list_methods(self, path: str) -> list[str]:
        """The methods of a path in alphabetical order; none for an unknown path."""
        methods = {route.method for pattern, route in self._routes if pattern.match(path)}
        if "GET" in methods:
            methods.add("HEAD")
        return sorted(methods)

    def is_unknown_page(self, method: str, path: str, accept: str) -> bool:
        """Whether a browser asks for a page that does not exist.

        `accept`: the header: browsers name HTML, programs do not.
        """
        return (
            method in SAFE_METHODS
            and "text/html" in accept
            and not path.startswith(_PROGRAM_PREFIXES)
            and not self.list_methods(path)
        )

    def find(self, method: str, path: str) -> RouteAccess:
        """The access of a request. Unknown routes need a viewer to read, an admin to change."""
        sought = "GET" if method == "HEAD" else method
        for pattern, route in self._routes:
            if route.method == sought and pattern.match(path):
                return route
        return RouteAccess(method, path, "viewer" if method in SAFE_METHODS else "admin")
