"""What is kept of a corpus is the corpus, or it is nothing."""

import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from recall.similarity.comparison import Comparison, restore_top
from recall.similarity.events import CorpusEvent
from recall.similarity.index import Index
from recall.similarity.measure import MEASURES
from recall.similarity.store import IndexStore, remove_unused

_MEASURE = MEASURES["tfidf"]


def _events(rng: random.Random, count: int, first: int) -> list[CorpusEvent]:
    def facts() -> dict[str, int]:
        return {
            f"t={min(int(rng.paretovariate(0.6)), 40)}": rng.choice([1, 2, 300]) for _ in range(5)
        }

    return [
        CorpusEvent(rng.randint(0, 1000), f"ä{number:05}", number, facts())
        for number in range(first, first + count)
    ]


def _best(index: Index, number: int) -> list[tuple[tuple[int, str], float]]:
    event = CorpusEvent(5000, "q", number, {"t=1": 1, "t=2": 1, "t=7": 2, "t=30": 1, "new": 1})
    one = Comparison(event, index.pin_counts(event), _MEASURE, restore_top(5, []), event.ts, number)
    index.score([one], [(None, 5000)])
    return [(hit.event, hit.score) for hit in one.top.hits]


@pytest.mark.parametrize("seed", range(5))
def test_kept_and_read_again_it_answers_alike(tmp_path: Path, seed: int) -> None:
    """Saved again and again while it grows; bounds that were kept move on with what came in after."""
    rng = random.Random(seed)
    store = IndexStore.for_corpus(tmp_path, "group/rule", "v1", ("running",))
    index, count = Index(), 0
    for _ in range(4):
        for chunk in range(3):
            index.add(chunk, _events(rng, rng.randint(1, 60), count + 1))
            count = index.last_sequence
        _best(index, count)
        store.save(index, index.last_sequence, now=1e12)
        again = store.load()
        assert again is not None and (len(again), again.last_sequence) == (
            len(index),
            index.last_sequence,
        )
        assert _best(again, count) == _best(index, count)
        assert len(list(store.path.glob("*.arrow"))) == len(index.segments)
        more = _events(rng, 20, count + 1)
        count += 20
        for one in (index, again):
            one.add(1, more)
        assert _best(again, count) == _best(index, count)


def _missing(file: Path) -> None:
    file.unlink()


def _short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-1])


def _flipped(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(bytes(data))


@pytest.mark.parametrize("damage", [_missing, _short, _flipped])
@pytest.mark.parametrize("which", ["*.arrow", "manifest.json"])
def test_what_is_damaged_is_not_used(
    tmp_path: Path, damage: Callable[[Path], None], which: str
) -> None:
    store = IndexStore.for_corpus(tmp_path, "group/rule", "v1", ("running",))
    index = Index()
    index.add(0, _events(random.Random(1), 30, 1))
    store.save(index, index.last_sequence, now=0)
    damage(next(store.path.glob(which)))
    found = store.load()
    assert found is None or _best(found, 30) == _best(index, 30)
    assert found is None or which == "manifest.json"


def test_what_nobody_uses_goes_after_a_week(tmp_path: Path) -> None:
    """And what is used, or lies there only since today, stays."""
    day, now = 86_400.0, time.time()
    for version, age in (("old", 8), ("new", 6), ("used", 30)):
        store = IndexStore.for_corpus(tmp_path, "group/rule", version, ("running",))
        store.save(Index(), 0, now)
        store.touch(now - age * day)
    (tmp_path / "begun").mkdir()
    IndexStore.for_corpus(tmp_path, "group/rule", "used", ("running",)).touch(now)
    remove_unused(tmp_path, now)
    stores = {
        version: IndexStore.for_corpus(tmp_path, "group/rule", version, ("running",))
        for version in ("old", "new", "used")
    }
    assert {version for version, store in stores.items() if store.load() is not None} == {
        "new",
        "used",
    }
    assert (tmp_path / "begun").is_dir()
