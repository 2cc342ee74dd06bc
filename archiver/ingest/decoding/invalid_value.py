"""How the error of a value that cannot be decoded quotes it."""

from archiver.ingest.decoding.json_records import dump_json

_MAX_QUOTED_LENGTH = 60  # characters of a value quoted in an error message


def abbreviate(value: object) -> str:
    """The value as the record spells it, shortened."""
    text = repr(value)
    if isinstance(value, bool | dict | list):
        text = dump_json(value).decode()
    if len(text) <= _MAX_QUOTED_LENGTH:
        return text
    return text[: _MAX_QUOTED_LENGTH - 3] + "..."
