"""What is a number, and which; see also the property tests of the decoders."""

import math

import pyarrow as pa
import pytest

from archiver.errors import InvalidValue
from archiver.ingest.decoding.numbers import (
    JsonNumber,
    needs_text,
    number_in_json,
    numbers_from_floats,
    numbers_from_texts,
    to_float,
    to_integer,
)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("1e3", 1_000),
        ("95.0", 95),
        ("10e-1", 1),
        ("1e18", 10**18),
        ("9223372036854775807", 2**63 - 1),
        ("-9223372036854775808", -(2**63)),
        ("-9223372036854775808.000", -(2**63)),
        ("9007199254740993.0", 2**53 + 1),
        ("0." + "0" * 400 + "1e401", 1),
        ("0" * 5_000 + "7", 7),
        ("1" + "0" * 400 + "e-400", 1),
        ("-0", 0),
        ("0e5", 0),
        ("0e99999999999999999999", 0),
        ("+5", 5),
        (" 007 ", 7),
        ("5.", 5),
        (".0", 0),
    ],
)
def test_decimal_text_without_a_fraction_is_an_integer(text: str, number: int) -> None:
    assert to_integer(text, "bigint") == number


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("95.5", "'95.5' is not an integer"),
        (JsonNumber("95.5"), "95.5 is not an integer"),
        ("1e-1", "'1e-1' is not an integer"),
        ("1e-99999999999999999999", "is not an integer"),
        ("9223372036854775808", "out of range for type bigint"),
        (JsonNumber("-9223372036854775809"), "^-9223372036854775809 is out of range for type"),
        ("1" + "0" * 400, "out of range for type bigint"),
        (JsonNumber("1e400"), "1e400 is out of range for type bigint"),
        ("0x1F", "is not a number"),
        ("1_000", "is not a number"),
        ("1,000", "is not a number"),
        ("1d", "is not a number"),
        ("٣", "is not a number"),
        ("nan", "is not a number"),
        ("", "is not a number"),
        ("- 1", "is not a number"),
        (True, "true is not an integer"),
        (math.inf, "inf is not an integer"),
    ],
)
def test_what_is_no_integer_of_the_type_is_refused(value: object, reason: str) -> None:
    with pytest.raises(InvalidValue, match=reason):
        to_integer(value, "bigint")


@pytest.mark.parametrize("kind", ["int", "bigint"])
def test_both_ends_of_a_type_are_accepted_and_their_neighbours_refused(kind: str) -> None:
    end = 2**31 if kind == "int" else 2**63
    for value in (-end, end - 1):
        assert to_integer(value, kind) == to_integer(str(value), kind) == value
    for value in (-end - 1, end):
        for spelling in (value, str(value), f"{value}.0", f"{value}0e-1"):
            with pytest.raises(InvalidValue, match="out of range"):
                to_integer(spelling, kind)


def test_float_is_rounded_once() -> None:
    above_the_middle = "1.00000005960464477540"
    assert to_float(above_the_middle, "float") == 1 + 2**-23
    assert to_float("1.000000059604644775390625", "float") == 1.0


@pytest.mark.parametrize("text", ["3.4028235677973367e38", "1e39", "-1e39"])
def test_number_beyond_float_is_refused(text: str) -> None:
    assert math.isfinite(to_float(text, "double"))
    for value in (text, float(text)):
        with pytest.raises(InvalidValue, match="out of range for type float"):
            to_float(value, "float")


def test_number_beyond_double_is_refused() -> None:
    for text in ("1e400", "-1e400", "1" + "0" * 400):
        with pytest.raises(InvalidValue, match="out of range for type double"):
            to_float(text, "double")


@pytest.mark.parametrize("text", ["NaN", "nan", "-Infinity", "+inf"])
def test_text_that_names_no_finite_number_stays_one(text: str) -> None:
    assert not math.isfinite(to_float(text, "double"))


@pytest.mark.parametrize("value", ["++inf", "nan(1)", "1f", "٣", True, None])
def test_what_is_no_number_is_refused(value: object) -> None:
    with pytest.raises(InvalidValue, match="is not a number"):
        to_float(value, "double")


def test_number_in_json_has_all_its_digits() -> None:
    line = b'{"n": 1, "n": -9223372036854775809, "x": {"n": 2}}'
    assert number_in_json(line, "n") == "-9223372036854775809"


def test_only_numbers_that_may_have_lost_digits_need_their_text() -> None:
    assert needs_text(95.0, "bigint")
    assert not needs_text(95, "bigint")
    assert needs_text(16_777_217.0, "float")
    assert not needs_text(0.1, "float")
    assert not needs_text(0.1, "double")


def test_irregular_columns_are_left_to_the_conversion_one_by_one() -> None:
    assert numbers_from_texts(pa.array(["1", "1e3"]), "bigint") is None
    assert numbers_from_texts(pa.array(["1", "1e39"]), "float") is None
    assert numbers_from_floats(pa.array([1.0, 1e39]), "float") is None
    assert numbers_from_floats(pa.array([16_777_217.0]), "float") is None
    with pytest.raises(pa.ArrowInvalid):
        numbers_from_texts(pa.array(["9223372036854775808"]), "bigint")


def test_regular_columns_are_converted_at_once() -> None:
    texts = pa.array(["1.5", "-2e-5", None])
    assert numbers_from_texts(texts, "double") == pa.array([1.5, -2e-5, None])
    assert numbers_from_floats(pa.array([0.1, None]), "float") == pa.array([0.1, None], "float32")
