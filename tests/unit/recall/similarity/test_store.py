"""Indexes on disk: what is loaded answers like what was saved, or is not loaded."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import orjson
import pytest

from archiver.time_range import TimeRange
from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.events import CorpusEvent
from recall.similarity.index import Index
from recall.similarity.measures import MEASURES
from recall.similarity.store import IndexStore

DAY = 86_400.0  # seconds


def _make_events(rng: random.Random, count: int, first_sequence: int) -> list[CorpusEvent]:
    events = []
    for sequence in range(first_sequence, first_sequence + count):
        term_counts = {}
        for _ in range(5):
            term = min(int(rng.paretovariate(0.6)), 40)
            term_counts[f"t={term}"] = rng.choice([1, 2, 300])
        events.append(CorpusEvent(rng.randint(0, 1000), f"ä{sequence:05}", sequence, term_counts))
    return events


def _best_hits(index: Index, sequence: int) -> list[tuple[tuple[int, str], float]]:
    term_counts = {"t=1": 1, "t=2": 1, "t=7": 2, "t=30": 1, "new": 1}
    event = CorpusEvent(5000, "q", sequence, term_counts)
    comparison = Comparison(
        event=event,
        pinned_counts=index.pin_counts(event),
        measure=MEASURES["tfidf"],
        top=restore_top(5, []),
        before_ts=event.ts,
        max_sequence=sequence,
    )
    index.score([comparison], [TimeRange(None, 5000)])
    return [(hit.event, hit.score) for hit in comparison.top.hits]


def _store(root: Path, version: str = "v1") -> IndexStore:
    return IndexStore.for_corpus(root, "group/rule", version, ("running",))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(5))
def test_loaded_index_answers_like_the_saved_one(tmp_path: Path, seed: int) -> None:
    """Also after further events, for which the loaded bounds are updated."""
    rng = random.Random(seed)
    store = _store(tmp_path)
    index = Index()
    for _ in range(4):
        for chunk in range(3):
            events = _make_events(rng, rng.randint(1, 60), index.last_sequence + 1)
            index.add(chunk, events)
        sequence = index.last_sequence
        _best_hits(index, sequence)
        store.save(index, sequence, now=1e12)
        loaded = store.load()
        assert loaded is not None
        assert len(loaded) == len(index)
        assert loaded.last_sequence == sequence
        assert _best_hits(loaded, sequence) == _best_hits(index, sequence)
        assert len(list(store.path.glob("*.arrow"))) == len(index.segments)
        events = _make_events(rng, 20, sequence + 1)
        index.add(1, events)
        loaded.add(1, events)
        assert _best_hits(loaded, sequence + 20) == _best_hits(index, sequence + 20)


def test_manifest_states_newest_and_complete_sequence(tmp_path: Path) -> None:
    store, index = _store(tmp_path), Index()
    assert (store.last_sequence(), store.complete_sequence()) == (None, None)
    index.add(0, _make_events(random.Random(1), 3, 5))
    store.save(index, 9, now=0)
    assert (store.last_sequence(), store.complete_sequence()) == (7, 9)


def test_index_of_another_format_is_not_loaded(tmp_path: Path) -> None:
    store = _store(tmp_path)
    store.save(Index(), 0, now=0)
    manifest_file = store.path / "manifest.json"
    manifest = orjson.loads(manifest_file.read_bytes())
    manifest_file.write_bytes(orjson.dumps({**manifest, "format": 0}))
    assert store.load() is None
    assert store.last_sequence() is None


def _delete(file: Path) -> None:
    file.unlink()


def _truncate(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _flip_bit(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [_delete, _truncate, _flip_bit])
@pytest.mark.parametrize("pattern", ["*.arrow", "manifest.json"])
def test_damaged_file_is_detected(
    tmp_path: Path, damage: Callable[[Path], None], pattern: str
) -> None:
    """A damaged manifest may still be readable; then the index must answer alike."""
    store, index = _store(tmp_path), Index()
    index.add(0, _make_events(random.Random(1), 30, 1))
    store.save(index, index.last_sequence, now=0)
    damage(next(store.path.glob(pattern)))
    loaded = store.load()
    if loaded is not None:
        assert pattern == "manifest.json"
        assert _best_hits(loaded, 30) == _best_hits(index, 30)


def test_saving_removes_old_files_that_no_manifest_names(tmp_path: Path) -> None:
    store, index = _store(tmp_path), Index()
    index.add(0, _make_events(random.Random(1), 3, 1))
    store.save(index, 3, now=0)
    (store.path / "0-unreferenced.arrow").touch()
    store.save(index, 3, now=time.time())
    assert (store.path / "0-unreferenced.arrow").exists()
    store.save(index, 3, now=time.time() + 2 * 3600)
    assert not (store.path / "0-unreferenced.arrow").exists()
    assert store.load() is not None


def test_index_unused_for_a_week_is_removed(tmp_path: Path) -> None:
    now = time.time()
    for version, age in (("old", 8), ("new", 6), ("used", 30)):
        store = _store(tmp_path, version)
        store.save(Index(), 0, now)
        store.touch(now - age * DAY)
    # A folder without a manifest, in which a process is about to save.
    (tmp_path / "saving").mkdir()
    _store(tmp_path, "used").touch(now)
    IndexStore.remove_unused(tmp_path, now)
    assert _store(tmp_path, "old").load() is None
    assert _store(tmp_path, "new").load() is not None
    assert _store(tmp_path, "used").load() is not None
    assert (tmp_path / "saving").is_dir()
