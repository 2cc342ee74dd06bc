"""The generated reference pages in docs/reference."""

from __future__ import annotations

from pathlib import Path

import pytest

from moirae.reference import (
    REFERENCE_FOLDER,
    WIDTH,
    find_stale_pages,
    generate_pages,
    main,
    render_models,
)


@pytest.fixture(scope="module")
def pages() -> dict[str, str]:
    return generate_pages()


def test_committed_pages_match_the_code() -> None:
    assert find_stale_pages(REFERENCE_FOLDER) == (), "run python -m moirae.reference"


@pytest.mark.slow
def test_check_lists_stale_pages_and_writing_updates_them(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--check"], tmp_path) == 1
    assert "cli.md is stale; run python -m moirae.reference" in capsys.readouterr().err
    assert main([], tmp_path / "reference") == 0
    assert main(["--check"], tmp_path / "reference") == 0
    (tmp_path / "reference" / "rules.md").write_text("", encoding="utf-8")
    assert find_stale_pages(tmp_path / "reference") == ("rules.md",)


def test_pages_have_no_long_lines(pages: dict[str, str]) -> None:
    for name, text in pages.items():
        assert max(map(len, text.splitlines())) <= WIDTH, name


def test_keys_show_type_default_and_description(pages: dict[str, str]) -> None:
    assert "[ lateness: <duration> | default = 1m ]" in pages["workspace.md"]
    assert "[ k: <int from 1 to 1000> | default = 10 ]" in pages["rules.md"]
    assert "\nexpr: <string>" in pages["rules.md"]
    assert "## `<sql recall>`" in pages["rules.md"]


def test_commands_list_arguments_options_and_defaults(pages: dict[str, str]) -> None:
    cli = pages["cli.md"]
    assert "moirae similar [OPTIONS] ID\n" in cli
    assert "moirae rules check [OPTIONS] [FILES...]\n" in cli
    assert "- `--workspace FILE`: " in cli
    assert "Default: `moirae.yaml`." in cli


def test_hidden_options_are_left_out(pages: dict[str, str]) -> None:
    assert "--parent" not in pages["cli.md"]


def test_models_follow_the_order_of_their_use() -> None:
    item = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    schema = {
        "description": "The root.",
        "properties": {"items": {"type": "array", "items": {"$ref": "#/$defs/LineItemSpec"}}},
        "$defs": {"LineItemSpec": item},
    }
    sections = list(render_models(schema, "Root"))
    assert sections[0] == "## Root"
    assert "[ items: [ <line item>, ... ] ]" in sections[2]
    assert sections[3] == "## `<line item>`"
    assert sections[-1] == "```yaml\nname: <string>\n```"
