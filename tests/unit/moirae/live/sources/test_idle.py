"""Idle sources, and the cache of archived files."""

from collections.abc import Set
from datetime import timedelta

from moirae.live.sources.idle import IdleTracker, SourceKey, UnreadFiles


def test_idle_source_advances_to_the_highest_watermark() -> None:
    tracker = IdleTracker({"slow": timedelta(seconds=10), "fast": timedelta(seconds=10)})
    watermarks: dict[SourceKey, int | None] = {SourceKey("slow"): None, SourceKey("fast"): 7}
    unread: set[SourceKey] = set()
    advances = [
        tracker.compute_advances(watermarks, now, unread.__contains__) for now in (0.0, 9.9, 10.0)
    ]
    assert advances == [{}, {}, {SourceKey("slow"): 7}]
    unread.add(SourceKey("slow"))
    assert tracker.compute_advances(watermarks, 20.0, unread.__contains__) == {}
    unread.clear()
    tracker.record_activity({SourceKey("slow")}, 20.0)
    assert tracker.compute_advances(watermarks, 29.9, unread.__contains__) == {}


def test_archived_files_are_looked_up_once_and_others_at_most_every_second() -> None:
    archived = {"a", "b"}
    lookups: list[tuple[str, set[str]]] = []

    def find_archived(stream: str, names: Set[str]) -> Set[str]:
        lookups.append((stream, set(names)))
        return archived & names

    files = UnreadFiles(find_archived)
    assert not files.find_unread("s", {"a", "b"}, 0.0)
    assert not files.find_unread("s", {"a", "b"}, 5.0)
    assert files.find_unread("s", {"b", "c"}, 5.0)
    assert files.find_unread("s", {"b", "c"}, 5.9)
    archived.add("c")
    assert not files.find_unread("s", {"b", "c"}, 6.0)
    assert files.find_unread("s", {"d"}, 6.1), "unread until the next lookup"
    assert not files.find_unread("t", set(), 6.1)
    assert lookups == [("s", {"a", "b"}), ("s", {"c"}), ("s", {"c"})]


def test_recorded_files_are_archived_without_a_lookup() -> None:
    files = UnreadFiles(lambda _, names: names - {"b", "c"})
    assert files.find_unread("s", {"a", "b"}, 0.0) == {"b"}
    files.record_archived("s", {"b"})
    assert files.find_unread("s", {"a", "b", "c"}, 0.1) == {"c"}
