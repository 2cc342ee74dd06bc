"""Files of a chunk: totals, and what file names say."""

from dataclasses import replace

from archiver.delta.files import ChunkFiles, DataFile, is_adopted, is_written_by_moirae, upper_bound

FILE = DataFile("chunk=0/a-1.parquet", 0, rows=5, bytes=100, oldest=1_000, newest=2_000)


def test_a_file_that_is_added_again_counts_once() -> None:
    chunk_files = ChunkFiles()
    chunk_files.add(FILE)
    chunk_files.add(replace(FILE, rows=6))
    assert (chunk_files.file_count, chunk_files.rows, chunk_files.bytes) == (1, 6, 100)


def test_names_tell_the_writer() -> None:
    assert is_written_by_moirae(FILE.path) and not is_adopted(FILE.path)
    assert is_adopted("chunk=0/f-1.parquet") and not is_written_by_moirae("chunk=0/f-1.parquet")
    assert not is_written_by_moirae("part-1.parquet")


def test_statistics_of_other_writers_may_be_truncated_to_milliseconds() -> None:
    assert upper_bound(FILE.path, 2_000) == 2_000
    assert upper_bound("chunk=0/part-1.parquet", 2_000) == 2_999
