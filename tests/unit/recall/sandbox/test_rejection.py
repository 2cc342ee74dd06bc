"""Places and messages of rejected queries."""

from py4j.protocol import Py4JError

from recall.sandbox.rejection import _simplify, from_java_error, line_and_column


def test_places_are_counted_from_one() -> None:
    sql = "SELECT a,\n  b\nFROM t"
    assert line_and_column(sql, 0) == (1, 1)
    assert line_and_column(sql, sql.index("b")) == (2, 3)
    assert line_and_column(sql, sql.index("FROM")) == (3, 1)
    assert line_and_column(sql, -1) == (1, 1)


def test_java_errors_are_one_line() -> None:
    rejection = from_java_error(Py4JError("something failed\n\tat java.lang.Thread"))
    assert str(rejection) == "Spark cannot analyse the query: something failed"


def test_unknown_column_is_named_with_a_suggestion() -> None:
    start = "A column, variable, or function parameter with name `hots` cannot be resolved."
    suggestion = "Did you mean one of the following? [`cpu`.`host`, `cpu`.`ts`]."
    assert _simplify(f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] {start} {suggestion}") == (
        "unknown column 'hots', did you mean 'cpu.host'?"
    )
    internal = suggestion.replace("`host`", "`_eid`")
    assert _simplify(f"[UNRESOLVED_COLUMN.WITH_SUGGESTION] {start} {internal}") == (
        "unknown column 'hots'"
    )
    assert _simplify(f"[UNRESOLVED_COLUMN.WITHOUT_SUGGESTION] {start}") == "unknown column 'hots'"
    assert _simplify("[PARSE_SYNTAX_ERROR] a") == "[PARSE_SYNTAX_ERROR] a"
