"""Idle sources."""

from datetime import timedelta

from moirae.live.sources.idle import IdleTracker, SourceKey


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
