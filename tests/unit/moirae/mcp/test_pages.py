"""Answers fit into a limit of bytes, and their pages have all parts once."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from moirae.errors import UsageError
from moirae.mcp.pages import MAX_BYTES, Part, make_page

VALUES = st.recursive(
    st.text(max_size=2000) | st.integers(-(1 << 60), 1 << 60) | st.none(),
    lambda inner: st.lists(inner, max_size=40) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=60,
)


@given(st.dictionaries(st.text(max_size=3000), VALUES, max_size=15))
def test_large_head_leaves_room_for_parts(head: dict[str, Any]) -> None:
    head = {f"head {number}": value for number, value in enumerate(head.items())}
    page = make_page(head, [Part("items", "x" * 500)])
    assert len(orjson.dumps(page)) <= MAX_BYTES
    assert page["items"] == ["x" * 500]


def test_object_with_many_entries_is_cut() -> None:
    many = {f"label {number}": "x" * 300 for number in range(5_000)}
    for page in (
        make_page(many_head := {"labels": many}, []),
        make_page({}, [Part("a", many_head)]),
    ):
        assert len(orjson.dumps(page)) <= MAX_BYTES
        assert "(5,000 entries)" in str(page)


@given(st.lists(VALUES, max_size=30))
def test_pages_have_each_part_once_in_order(values: list[Any]) -> None:
    parts = [Part("items", {"number": number, "value": v}) for number, v in enumerate(values)]
    numbers: list[int] = []
    cursor: str | None = None
    while True:
        page = make_page({"id": "x"}, parts, cursor)
        assert len(orjson.dumps(page)) <= MAX_BYTES
        numbers += [item["number"] for item in page.get("items", [])]
        cursor = page["next"]
        if cursor is None:
            break
    assert numbers == list(range(len(values)))


def test_long_texts_and_lists_say_what_was_left_out() -> None:
    page = make_page({}, [Part("notes", {"text": "x" * 1_000_000, "rows": list(range(500))})])
    note = page["notes"][0]
    assert note["text"].endswith("… (1,000,000 characters)")
    assert note["rows"][-1] == "… (500 items)"


@pytest.mark.parametrize("text", range(1, 40))
def test_cursor_and_what_a_tool_adds_fit_too(text: int) -> None:
    """Whatever the length of the parts, there is room for what is known last."""
    parts = [Part("items", "x" * text)] * 5_000
    page = make_page({"id": "x"}, parts, "999")
    size = len(orjson.dumps(page | {"next": None}))
    assert MAX_BYTES - 300 < size <= MAX_BYTES - 200


@pytest.mark.parametrize("cursor", ["-1", "x", "99", "１", ""])
def test_invalid_cursor_is_refused(cursor: str) -> None:
    with pytest.raises(UsageError, match="cursor"):
        make_page({}, [Part("a", 1)], cursor)
