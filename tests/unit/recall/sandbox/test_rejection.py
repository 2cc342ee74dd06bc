"""Places and messages of rejected queries."""

from py4j.protocol import Py4JError

from recall.sandbox.rejection import from_java_error, line_and_column


def test_places_are_counted_from_one() -> None:
    sql = "SELECT a,\n  b\nFROM t"
    assert line_and_column(sql, 0) == (1, 1)
    assert line_and_column(sql, sql.index("b")) == (2, 3)
    assert line_and_column(sql, sql.index("FROM")) == (3, 1)
    assert line_and_column(sql, -1) == (1, 1)


def test_java_errors_are_one_line() -> None:
    rejection = from_java_error(Py4JError("something failed\n\tat java.lang.Thread"))
    assert str(rejection) == "Spark cannot analyse the query: something failed"
