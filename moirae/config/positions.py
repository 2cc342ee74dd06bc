"""Positions in the workspace file of what is found wrong after it was read."""

from moirae.config.settings import Settings
from moirae.documents import KeyPath, format_path, read_document
from moirae.errors import Problem


def locate(settings: Settings, path: KeyPath, message: str) -> Problem:
    """A problem of the value at a path, or of the nearest key above it that exists."""
    message = f"{format_path(path)}: {message}"
    document, _ = read_document(settings.file, empty_message="")
    if document is None:  # changed since
        return Problem(str(settings.file), None, None, message)
    if document.has(path):
        return Problem(document.file, *document.position(path), message)
    while path and not document.has(path):
        path = path[:-1]
    return Problem(document.file, *document.key_position(path), message)
