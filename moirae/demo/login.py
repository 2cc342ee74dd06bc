"""The login of the demo: a URL with a one-time code, instead of a default password."""

import sql
from moirae.runtime import list_processes
from moirae.services import tokens

_TOKEN_NAME = "demo"
_STATE_PREFIX = "listening on "  # of the server process


def create_login_url(connection: sql.Connection) -> str | None:
    """A URL that opens one session of a new operator, within ten minutes; None without a server."""
    for process in list_processes(connection):
        if process["role"] == "server" and process["alive"]:
            address = process["state"].removeprefix(_STATE_PREFIX)
            tokens.create_token(connection, _TOKEN_NAME, "operator")
            code = tokens.create_login_code(connection, _TOKEN_NAME)
            return f"http://{address}/login#code={code}"
    return None
