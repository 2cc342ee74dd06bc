"""Rules that are compiled to explain one."""

from moirae.inspect.explained_rules import select_explained_rules

QUERY = "SELECT ts FROM logs WHERE text LIKE '{}' AND size > {}"


def test_rules_that_differ_in_constants_come_first() -> None:
    queries = {
        "g/A": "SELECT ts FROM logs WHERE size IS NULL",
        "g/B": QUERY.format("it\\'s %", 1),
        "g/C": QUERY.format("%x%", 2.5).replace(" AND", "\n  AND"),
    }
    assert select_explained_rules(queries, "g/C") == ["g/C", "g/B", "g/A"]


def test_few_of_many_rules_are_compiled() -> None:
    shapes = {f"g/S{n}": f"SELECT ts FROM logs WHERE column_{n:x}x = 1" for n in range(5_000)}
    same = {f"g/A{n}": QUERY.format("%x%", n) for n in range(5_000)}
    names = select_explained_rules({**shapes, **same}, "g/A4999")
    assert names[0] == "g/A4999"
    assert (len(names), len(set(names) & same.keys())) == (356, 100)
