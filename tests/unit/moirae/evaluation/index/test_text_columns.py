"""Texts in the cases of conditions, and rows by their distinct values."""

import numpy as np
import pyarrow as pa
import pytest

from moirae.evaluation.index.text_columns import (
    Case,
    TextColumn,
    case_mapping,
    map_text,
    map_texts,
)


def test_texts_are_mapped_alike_alone_and_together() -> None:
    texts = ["", "ABC", "Microsoft®", "İx", "ß", "日本", "\u212a"]
    for case in ("lower", "upper", "pattern", "ascii", "folded", "raw"):
        together = map_texts(texts, case)  # type: ignore[arg-type]
        alone = [map_texts([text], case)[0] for text in texts]  # type: ignore[arg-type]
        assert together == alone
    assert map_texts(["İK", "ß"], "lower") == ["i\u0307k", "ß"]
    assert map_texts(["ß®"], "upper") == ["SS®"]


def test_rows_are_found_by_their_value() -> None:
    column = TextColumn(pa.chunked_array([["b", None, "a"], ["b"]]))
    assert column.values("upper") == ["B", None, "A", "B"]
    text, starts = column.folded
    assert (text, starts.tolist()) == ("ba", [0, 1, 2])
    rows, indexes = column.rows_of(np.array([1, 0]))
    assert list(zip(rows.tolist(), indexes.tolist(), strict=True)) == [(2, 0), (0, 1), (3, 1)]


def test_a_column_without_values_has_no_text() -> None:
    column = TextColumn(pa.chunked_array([pa.array([None, None], pa.string())]))
    assert column.values("lower") == [None, None]
    assert column.folded.text == ""


@pytest.mark.parametrize("case", ["lower", "upper", "pattern", "ascii", "folded"])
def test_letters_are_replaced_as_a_table_maps_them(case: Case) -> None:
    mapping = case_mapping(case)
    assert mapping is not None
    letters = [chr(code) for code in mapping]
    for letter in letters:
        assert map_texts([f"A{letter}b", "日"], case) == [map_text(f"A{letter}b", case), "日"]
    every_letter = "".join(letters)  # too many to replace one after the other
    assert map_texts([every_letter], case) == [map_text(every_letter, case)]


def test_images_that_are_letters_of_the_text_are_not_mapped_again() -> None:
    texts = ["ſ\u1e9eẞÜüϴθϑΘ", "Kk"]
    for case in ("lower", "upper", "folded"):
        assert map_texts(texts, case) == [map_text(text, case) for text in texts]
