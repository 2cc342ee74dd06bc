"""What goes into jsonb columns is what PostgreSQL can keep."""

import sql


def test_nul_is_shown_wherever_it_stands() -> None:
    value = {"a\x00": ["b\x00c", {"d": "\x00"}, 1, None, 2.5], "e": ("x\x00",)}
    assert sql.replace_nul(value) == {"a␀": ["b␀c", {"d": "␀"}, 1, None, 2.5], "e": ["x␀"]}
