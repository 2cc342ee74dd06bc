"""JSON Schema of workspace files, rule files and maps: `python -m moirae.json_schema [--check]`.

Editors use the schemas to validate and complete these files. They are written to `docs/schema`.
"""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from pathlib import Path
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema

from moirae.config import Settings, format_duration
from moirae.rule_tests import RuleTestFile
from moirae.rules import RuleFile
from moirae.sigma import SigmaMap

SCHEMA_FOLDER = Path(__file__).parent.parent / "docs" / "schema"

_MODELS: dict[str, tuple[type[BaseModel], str]] = {
    "workspace.schema.json": (Settings, "Moirae workspace (moirae.yaml)"),
    "rules.schema.json": (RuleFile, "Moirae rule file"),
    "rule_tests.schema.json": (RuleTestFile, "Moirae tests of rules"),
    "sigma_map.schema.json": (SigmaMap, "Moirae map of a Sigma collection"),
}


def generate_schemas() -> dict[str, str]:
    """The text of each schema, by file name."""
    texts: dict[str, str] = {}
    for name, (model, title) in _MODELS.items():
        texts[name] = _render_schema(model, title)
    return texts


def find_stale(folder: Path) -> tuple[str, ...]:
    """Names of the schema files in `folder` that are missing or differ from the models."""
    schemas = generate_schemas()
    return tuple(name for name, text in schemas.items() if _read_text(folder / name) != text)


def main(arguments: list[str], folder: Path = SCHEMA_FOLDER) -> int:
    """Write the stale schema files; with --check only list them, and return 1 if any are."""
    stale_files = find_stale(folder)
    if "--check" in arguments:
        for name in stale_files:
            print(f"{name} is stale; run python -m moirae.json_schema", file=sys.stderr)
        return int(bool(stale_files))
    folder.mkdir(parents=True, exist_ok=True)
    schemas = generate_schemas()
    for name in stale_files:
        (folder / name).write_text(schemas[name], encoding="utf-8")
    return 0


class _SchemaGenerator(GenerateJsonSchema):
    """Writes durations as in YAML files, and no titles that only repeat the names of keys."""

    def encode_default(self, dft: Any) -> Any:
        if isinstance(dft, timedelta):
            return format_duration(dft)
        return super().encode_default(dft)

    def field_title_should_be_set(self, schema: Any) -> bool:
        return False


def _render_schema(model: type[BaseModel], title: str) -> str:
    schema = model.model_json_schema(mode="validation", schema_generator=_SchemaGenerator)
    heading = {"$schema": _SchemaGenerator.schema_dialect, "title": title}
    # Merged twice: the heading comes first, and its title wins over that of the model.
    return json.dumps(heading | schema | heading, indent=2, ensure_ascii=False) + "\n"


def _read_text(file: Path) -> str | None:
    if not file.is_file():
        return None
    return file.read_text(encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
