"""JSON Schema of the workspace and the rule file, for editors: `python -m moirae.schema [--check]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from pydantic import BaseModel

from moirae.rules.model import RuleFile
from moirae.settings import Settings

FOLDER = Path(__file__).parent.parent / "docs" / "schema"

_MODELS: dict[str, tuple[type[BaseModel], str]] = {
    "workspace.schema.json": (Settings, "Moirae workspace (moirae.yaml)"),
    "rules.schema.json": (RuleFile, "Moirae rule file"),
}


def schemas() -> dict[str, str]:
    """File name -> text of each schema."""
    return {name: _text(model, title) for name, (model, title) in _MODELS.items()}


def stale(folder: Path) -> tuple[str, ...]:
    """The names of the schema files in `folder` that are not as the models say."""
    return tuple(name for name, text in schemas().items() if _read(folder / name) != text)


def main(arguments: list[str], folder: Path = FOLDER) -> int:
    """Write the schema files, or with --check only say which are stale, and then return 1."""
    old = stale(folder)
    if "--check" in arguments:
        for name in old:
            print(f"{name} is stale; run python -m moirae.schema", file=sys.stderr)
        return 1 if old else 0
    folder.mkdir(parents=True, exist_ok=True)
    for name in old:
        (folder / name).write_text(schemas()[name], encoding="utf-8")
    return 0


def _text(model: type[BaseModel], title: str) -> str:
    schema = model.model_json_schema(by_alias=True, mode="validation")
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title}
    return json.dumps(head | {k: v for k, v in schema.items() if k != "title"}, indent=2, ensure_ascii=False) + "\n"


def _read(file: Path) -> str | None:
    return file.read_text(encoding="utf-8") if file.is_file() else None


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
