"""The JSON Schema files in docs/schema."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from moirae.json_schema import SCHEMA_FOLDER, find_stale, generate_schemas, main


def test_committed_schemas_match_the_models() -> None:
    assert find_stale(SCHEMA_FOLDER) == (), "run python -m moirae.json_schema"


def test_check_lists_stale_schemas_and_writing_updates_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"], tmp_path) == 1
    assert "rules.schema.json is stale; run python -m moirae.json_schema" in capsys.readouterr().err
    assert main([], tmp_path / "docs") == 0
    assert main(["--check"], tmp_path / "docs") == 0
    (tmp_path / "docs" / "rules.schema.json").write_text("{}", encoding="utf-8")
    assert main(["--check"], tmp_path / "docs") == 1


@pytest.mark.parametrize("name", sorted(generate_schemas()))
def test_durations_are_written_as_in_yaml(name: str) -> None:
    text = generate_schemas()[name]
    assert json.loads(text)["title"].startswith("Moirae")
    assert '"default": "P' not in text
    assert '"title": ' in text


@pytest.mark.parametrize("name", sorted(generate_schemas()))
def test_every_key_has_a_description(name: str) -> None:
    schema = json.loads(generate_schemas()[name])
    for title, definition in {**schema["$defs"], "": schema}.items():
        for key, value in definition["properties"].items():
            # A reference whose description would repeat that of its target has none of its own.
            assert value.get("description") or "$ref" in value, (title, key)
