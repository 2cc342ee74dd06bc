"""How the error of a value that cannot be decoded quotes it."""

import orjson

_MAX_QUOTED_LENGTH = 60  # characters of a value quoted in an error message


def abbreviate(value: object) -> str:
    """The value as the record spells it, shortened."""
    text = repr(value)
    if isinstance(value, bool | dict | list):
        text = orjson.dumps(value).decode()
    if len(text) <= _MAX_QUOTED_LENGTH:
        return text
    return text[: _MAX_QUOTED_LENGTH - 3] + "..."
