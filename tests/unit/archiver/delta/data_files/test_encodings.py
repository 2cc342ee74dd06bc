"""Encodings of columns are chosen by trial."""

import numpy as np
import pyarrow as pa

from archiver.delta.data_files.encodings import choose_encodings, compression_options

RNG = np.random.default_rng(3)


def test_few_values_get_a_dictionary_and_even_steps_differences() -> None:
    rows = pa.table(
        {
            "value": np.round(RNG.normal(50, 5, 20_000), 1),
            "noise": RNG.uniform(size=20_000),
            "step": np.arange(20_000) * 1_000_003,
            "flag": np.zeros(20_000, bool),
        }
    )
    encodings = choose_encodings(rows)
    assert encodings.dictionary == ["value"]
    assert encodings.others == {"step": "DELTA_BINARY_PACKED"}


def test_empty_columns_need_no_trial() -> None:
    encodings = choose_encodings(pa.table({"nothing": pa.nulls(3, pa.string())}))
    assert encodings.dictionary == ["nothing"] and not encodings.others


def test_no_encoding_is_used_that_spark_cannot_read() -> None:
    rows = pa.table({name: RNG.integers(0, 200, 5_000) for name in "ab"})
    options = compression_options(choose_encodings(rows))
    assert "BYTE_STREAM_SPLIT" not in options["column_encoding"].values()
