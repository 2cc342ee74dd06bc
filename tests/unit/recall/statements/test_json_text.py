import pytest

from recall.errors import SparkRequired
from recall.statements import DuckDBStatements, Statement


def read(value: str) -> object:
    sql = f"""SELECT _json_text('{{"a":{value}}}', '$."a"') AS text"""
    return DuckDBStatements().run(Statement(sql))["text"][0].as_py()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ('"x\\ny"', "x\ny"),
        ("true", "true"),
        ("null", None),
        ("-7", "-7"),
        ("0.25", "0.25"),
        ("0.0", "0.0"),
        ("123456789012345678901234567890", "123456789012345678901234567890"),
        ('{"b":[1,"c"]}', '{"b":[1,"c"]}'),
    ],
)
def test_values_are_text(value: str, text: str | None) -> None:
    assert read(value) == text


@pytest.mark.parametrize("value", ["1e16", "1e-5", "12345678.5", "[1.5]", '{"b":"\\u001f"}'])
def test_values_that_engines_write_differently_are_left_to_spark(value: str) -> None:
    with pytest.raises(SparkRequired):
        read(value)
