"""Where a database is, for programs that take its location as an argument."""

from psycopg.conninfo import conninfo_to_dict, make_conninfo


def split_password(dsn: str) -> tuple[str, str | None]:
    """The DSN without its password, and the password."""
    values = conninfo_to_dict(dsn)
    password = values.pop("password", None)
    return make_conninfo("", **values), None if password is None else str(password)
