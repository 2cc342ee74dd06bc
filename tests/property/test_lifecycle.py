"""Chunks on their way from present to expired: states only go on, history is covered, work is asked for once."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from archiver.chunk import Chunk
from archiver.lifecycle import CLUSTER, COUNT, FORGET, Becomes, Kept, Need, Policy, Work, steps

NEED = Need(CLUSTER, frozenset({"recent", "old"}), 3)
ORDER = ["expired", "old", "recent", "present"]


def chunks(number: int) -> list[Kept]:
    """Present chunks of ten units of time each, the last one open."""
    ends = [10 * (n + 1) for n in range(number)]
    made = [Chunk(n, None if n == 0 else ends[n - 1], None if n == number - 1 else ends[n]) for n in range(number)]
    return [Kept(chunk) for chunk in made]


def apply(kept: list[Kept], found: list[Becomes | Work]) -> list[Kept]:
    """The catalog after some steps, all work done."""
    by_id = {one.chunk.id: one for one in kept}
    for step in found:
        one = by_id[step.chunk]
        if isinstance(step, Becomes):
            assert ORDER.index(step.state) == ORDER.index(one.chunk.state) - 1, "no state is skipped, none goes back"
            by_id[step.chunk] = replace(one, chunk=replace(one.chunk, state=step.state))
        else:
            by_id[step.chunk] = replace(one, done={**one.done, step.name: step.version})
    return list(by_id.values())


@given(
    st.integers(1, 12),
    st.lists(st.tuples(st.integers(0, 130), st.integers(0, 40)), min_size=1, max_size=6),
    st.integers(1, 5),
    st.none() | st.integers(0, 60),
)
def test_states_go_on_and_work_is_asked_for_once(
    number: int, times: list[tuple[int, int]], recent: int, keep: int | None
) -> None:
    """Whatever event time does: closed chunks are recent, then old, expired when `keep` says so, and never else."""
    kept, policy = chunks(number), Policy(recent, keep, 0.0)
    watermark = newest = 0
    for at, ahead in times:
        watermark, newest = max(watermark, at), max(newest, at + ahead)
        kept = apply(kept, steps(kept, policy, watermark, newest, [NEED]))
        kept = apply(kept, steps(kept, policy, watermark, newest, [NEED]))
        assert steps(kept, policy, watermark, newest, [NEED]) == []
        for one in kept:
            end, state = one.chunk.to_ts, one.chunk.state
            assert (state == "present") == (end is None or end > watermark)
            if state != "present":
                assert end is not None
                assert (state == "expired") == (keep is not None and end <= newest - keep)
                assert {COUNT, FORGET} <= one.done.keys() if state == "expired" else CLUSTER in one.done
        states = [one.chunk.state for one in kept]
        assert states == sorted(states, key=ORDER.index)
        closed = [state for state in states if state != "present"]
        assert all(state == "recent" for state in closed[-recent:] if state != "expired")
        assert closed.count("recent") <= recent


def test_files_stay_while_somebody_may_need_them() -> None:
    """Expired: counted at once, deleted after the grace, and not while a recall has the chunk before it."""
    one = Kept(Chunk(0, None, 10, "expired"))
    rest = chunks(3)[1:]
    policy = Policy(1, 5, 60.0)

    def asked(expired: float, pinned: set[int]) -> list[str]:
        now = replace(one, expired=expired, done=done)
        return [s.name for s in steps([now, *rest], policy, 10, 30, [], pinned) if isinstance(s, Work)]

    done: dict[str, int] = {}
    assert asked(100.0, set()) == [COUNT]
    done = {COUNT: 0}
    assert asked(59.0, set()) == []
    assert asked(61.0, {0}) == []
    assert asked(61.0, {1}) == [FORGET]


def test_late_rows_ask_for_clustering_again() -> None:
    """Not at once: when enough have come."""
    kept = [Kept(Chunk(0, None, 10, "recent"), version=2, done={CLUSTER: 0}), *chunks(2)[1:]]
    policy = Policy(5, None, 0.0)
    assert steps(kept, policy, 10, 10, [NEED]) == []
    assert steps([replace(kept[0], version=3), kept[1]], policy, 10, 10, [NEED]) == [Work(0, CLUSTER, 3)]
