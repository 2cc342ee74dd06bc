import pyarrow as pa

from archiver.formats.redaction import Redaction, redact_table, redact_text, redact_value

PASSWORD = Redaction("message", r"(password)=\S+", r"\1=***")
CARD = Redaction("_extra", r"\d{4}-\d{4}", "#")


def test_redactions_follow_each_other() -> None:
    again = Redaction("message", r"\*\*\*", "-")
    assert redact_text("password=a password=b", [PASSWORD, again]) == "password=- password=-"


def test_texts_and_names_inside_of_values_are_redacted() -> None:
    value = {"a": ["password=x", 1], "b": {"c": "1234-5678"}, "password=k": None}
    assert redact_value(value, [PASSWORD, CARD]) == {
        "a": ["password=***", 1],
        "b": {"c": "#"},
        "password=***": None,
    }


def test_columns_are_redacted_by_their_own_patterns_and_undeclared_fields_by_all() -> None:
    table = pa.table(
        {
            "message": ["password=x", None, "1234-5678"],
            "other": ["password=x", "", None],
            "_extra": pa.array(['{"a":"password=x","b":[1.50,"1234-5678"]}', None, '{"n":1.50}']),
        }
    )
    redacted = redact_table(table, [PASSWORD, CARD]).to_pydict()
    assert redacted["message"] == ["password=***", None, "1234-5678"]
    assert redacted["other"] == ["password=x", "", None]
    assert redacted["_extra"] == ['{"a":"password=***","b":[1.5,"#"]}', None, '{"n":1.50}']
