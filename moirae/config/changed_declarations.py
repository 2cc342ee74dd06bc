"""Which streams and relations of a workspace file a process has read otherwise, or not at all."""

from collections.abc import Iterator, Mapping
from hashlib import blake2b

from moirae.config.settings import Settings

Declarations = Mapping[str, str]
"""The hash of each declaration, by kind and name: `stream cpu`."""


def digest_declarations(settings: Settings) -> Declarations:
    """What a process reads of the workspace file at its start, and not again."""
    declared = {
        **{f"stream {name}": stream for name, stream in settings.streams.items()},
        **{f"relation {name}": relation for name, relation in settings.relations.items()},
    }
    return {
        name: digest_value(declaration.model_dump_json()) for name, declaration in declared.items()
    }


def digest_value(text: str) -> str:
    """A hash of a value of the workspace file."""
    return blake2b(text.encode(), digest_size=8).hexdigest()


def describe_changed_declarations(declared: Declarations, present: Declarations) -> str | None:
    """What a process does not know of the file. `declared`: as it has read it; None: all is known."""
    changes = ", ".join(_list_changes(declared, present))
    return f"restart `moirae up` for its changes to take effect: {changes}" if changes else None


def _list_changes(declared: Declarations, present: Declarations) -> Iterator[str]:
    for name, digest in present.items():
        if name not in declared:
            yield f"{name} is new"
        elif declared[name] != digest:
            yield f"{name} is declared otherwise"
    for name in declared:
        if name not in present:
            yield f"{name} is gone"
