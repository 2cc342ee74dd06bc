"""The error of a line or value that cannot be decoded, and how it quotes the value."""

import orjson

from archiver.errors import ArchiverError

_MAX_QUOTED_LENGTH = 60  # characters of a value quoted in an error message


class InvalidValue(ArchiverError, ValueError):
    """A line or value that cannot be decoded."""


def abbreviate(value: object) -> str:
    """The value as the record spells it, shortened."""
    text = repr(value)
    if isinstance(value, bool | dict | list):
        text = orjson.dumps(value).decode()
    if len(text) <= _MAX_QUOTED_LENGTH:
        return text
    return text[: _MAX_QUOTED_LENGTH - 3] + "..."
