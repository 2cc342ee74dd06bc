"""Sigma files are read document by document; what is damaged is named, the rest goes on."""

from pathlib import Path

import pytest

from moirae.sigma.collection import parse_collection, read_collection
from tests.unit.moirae.sigma.examples import CURL, NET, NET_ID, write_rules


def test_damaged_files_are_named_and_others_are_read(tmp_path: Path) -> None:
    folder = write_rules(tmp_path / "rules", a=CURL, b="title: [", c=NET, d="title: x\nname: ci\n")
    (folder / "e.yml").write_bytes(b"\xff")
    (folder / ".hidden").mkdir()
    (folder / ".hidden" / "f.yml").write_text("title: [")
    collection = read_collection([folder])
    assert [document.name for document in collection.documents] == ["a.yml", "c.yml"]
    assert [str(item.location) for item in collection.left_out] == [
        f"{folder}/b.yml:2:1",
        f"{folder}/e.yml",
    ]
    assert (collection.files, collection.ignored) == (5, 1)


def test_documents_of_a_file_are_independent() -> None:
    text = f"{NET}\n---\ntitle: broken\nlogsource: [\n---\n{CURL}"
    collection = parse_collection("f.yml", text)
    assert [document.content.title for document in collection.documents] == [
        "Account list",
        "Download by curl",
    ]
    (broken,) = collection.left_out
    assert broken.location.line == 13
    assert broken.reason.startswith("not YAML")


def test_global_part_is_added_to_later_documents() -> None:
    text = """\
action: global
title: both
logsource: {product: windows}
detection: {condition: a}
---
detection: {a: {EventID: 1}}
---
detection: {a: {EventID: 2}}
---
action: repeat
level: high
---
action: reset
---
action: other
"""
    collection = parse_collection("f.yml", text)
    assert [document.content.title for document in collection.documents] == ["both"] * 3
    first, second, third = collection.documents
    assert first.id != second.id != third.id
    assert str(third.content.level) == "high"
    assert [item.reason for item in collection.left_out] == ["unknown action 'other'"]


def test_invalid_rules_are_named_with_title_and_id() -> None:
    text = f"title: x\nid: {NET_ID}\nlogsource: {{product: a}}\ndetection: {{condition: a}}\n"
    (item,) = parse_collection("f.yml", text).left_out
    assert (item.location.title, item.location.sigma_id, item.kind) == ("x", NET_ID, "invalid")


def test_repeated_id_is_left_out() -> None:
    collection = parse_collection("f.yml", f"{NET}---\n{NET}")
    assert len(collection.documents) == 1
    assert [item.kind for item in collection.left_out] == ["repeated id"]


def test_regular_expressions_with_lookahead_are_read() -> None:
    text = NET.replace("CommandLine|contains: net user", "CommandLine|re: 'a(?!b)'")
    assert not parse_collection("f.yml", text).left_out


def test_billion_laughs_are_refused() -> None:
    text = "a: &a [x, x, x, x, x, x, x, x, x, x]\n"
    for name, previous in zip("bcdefgh", "abcdefg", strict=True):
        text += f"{name}: &{name} [{', '.join([f'*{previous}'] * 10)}]\n"
    (item,) = parse_collection("f.yml", f"{text}detection: *h\n").left_out
    assert "alias" in item.reason


def test_a_single_reference_needs_no_list() -> None:
    text = """\
title: single
logsource: {product: windows}
detection: {a: {x: 1}, condition: a}
references: https://a.example/curl
falsepositives: Administrators
"""
    (document,) = parse_collection("f.yml", text).documents
    assert document.content.references == ["https://a.example/curl"]
    assert document.content.falsepositives == ["Administrators"]


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("[attack.t1105, sysmon]", ("attack.t1105", "sysmon")),
        ("sysmon", ("sysmon",)),
        ("[7, .x, a.b.c]", ("7", ".x", "a.b.c")),
        ("", ()),
    ],
)
def test_tags_are_kept_as_written(tags: str, expected: tuple[str, ...]) -> None:
    text = f"title: t\ntags: {tags}\nlogsource: {{product: x}}\ndetection: {{a: {{x: 1}}, condition: a}}\n"
    repeated = parse_collection("f.yml", f"{text}---\naction: repeat\ntitle: u\n")
    assert [document.tags for document in repeated.documents] == [expected, expected]
    assert not repeated.left_out
