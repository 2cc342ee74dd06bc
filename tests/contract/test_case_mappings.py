"""The tables of case are those of Spark and Java, for every code point."""

from contextlib import suppress
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from moirae.errors import Undecided
from moirae.evaluation.index.case_mappings import (
    folding,
    lower_mapping,
    pattern_mapping,
    upper_mapping,
)
from moirae.evaluation.index.patterns import compile_regex
from moirae.evaluation.index.text_columns import map_text

pytestmark = pytest.mark.services

SURROGATES = range(0xD800, 0xE000)
PATTERN_CASE = "reflect('java.lang.Character', '{}', {})"


@pytest.fixture(scope="module")
def changed(spark: SparkSession) -> list[dict[str, Any]]:
    """Every code point that Spark's functions or Java's patterns change."""
    codes = [code for code in range(0x110000) if code not in SURROGATES]
    texts = pa.table({"code": pa.array(codes, pa.int32()), "text": list(map(chr, codes))})
    upper = PATTERN_CASE.format("toUpperCase", "code")
    pattern = PATTERN_CASE.format("toLowerCase", f"CAST({upper} AS INT)")
    frame = spark.createDataFrame(texts).selectExpr(
        "code", "text", "lower(text) AS lower", "upper(text) AS upper", f"{pattern} AS pattern"
    )
    rows = frame.where("lower <> text OR upper <> text OR pattern <> CAST(code AS STRING)")
    result: list[dict[str, Any]] = rows.toArrow().to_pylist()
    return result


@pytest.mark.slow
def test_tables_have_the_images_of_all_code_points(changed: list[dict[str, Any]]) -> None:
    lower = {row["code"]: row["lower"] for row in changed if row["lower"] != row["text"]}
    assert lower == lower_mapping()
    upper = {row["code"]: row["upper"] for row in changed if row["upper"] != row["text"]}
    assert upper == upper_mapping()
    pattern = {row["code"]: chr(int(row["pattern"])) for row in changed}
    assert {c: text for c, text in pattern.items() if text != chr(c)} == pattern_mapping()


@pytest.mark.slow
def test_patterns_of_one_character_match_what_they_match_in_java(
    spark: SparkSession, changed: list[dict[str, Any]]
) -> None:
    """Each character against all others that any table makes equal to it."""
    groups: dict[str, list[str]] = {}
    for row in changed:
        group = groups.setdefault(row["text"].translate(folding()), [])
        group += [text for text in (row["text"], row["lower"], row["upper"]) if len(text) == 1]
    pairs: list[tuple[str, str]] = []
    for group in groups.values():
        characters = sorted(set(group))
        pairs += [(a, b) for a in characters for b in characters if a != b]
    assert len(pairs) > 2_000
    frame = spark.createDataFrame(pairs, "text string, pattern string")
    columns = [
        f"text RLIKE concat('{flags}', pattern) AS {flags[2:-1]}" for flags in ("(?iu)", "(?i)")
    ]
    for row in frame.selectExpr("text", "pattern", *columns).collect():
        for flags in ("iu", "i"):
            test = compile_regex(f"(?{flags}){row['pattern']}")
            with suppress(Undecided):
                holds = test.holds(map_text(row["text"], test.case), row["text"])
                assert holds is row[flags], (row["text"], row["pattern"], flags)


@pytest.mark.slow
def test_folding_is_coarser_than_each_table(changed: list[dict[str, Any]]) -> None:
    fold = folding()
    for row in changed:
        folded = row["text"].translate(fold)
        assert row["lower"].translate(fold) == folded
        assert row["upper"].translate(fold) == folded
        assert chr(int(row["pattern"])).translate(fold) == folded
        assert folded.translate(fold) == folded
