"""Which files of a stream are unread: what is done is asked about once, the rest once a second."""

from collections.abc import Set

from moirae.live.idle import UnreadFiles


def test_only_files_not_known_to_be_done_are_asked_about_and_not_all_the_time() -> None:
    done, asked = {"a", "b"}, []

    def look(stream: str, names: Set[str]) -> Set[str]:
        asked.append((stream, set(names)))
        return done & names

    files = UnreadFiles(look)
    assert not files.has_unread("s", {"a", "b"}, 0.0)
    assert not files.has_unread("s", {"a", "b"}, 5.0)
    assert files.has_unread("s", {"b", "c"}, 5.0)
    assert files.has_unread("s", {"b", "c"}, 5.9)
    done.add("c")
    assert not files.has_unread("s", {"b", "c"}, 6.0)
    assert files.has_unread("s", {"d"}, 6.1), "unread until somebody has looked"
    assert not files.has_unread("t", set(), 6.1)
    assert asked == [("s", {"a", "b"}), ("s", {"c"}), ("s", {"c"})]
