"""Building a model from all events and tags that are known."""

from dataclasses import replace

import numpy as np
import pytest

from recall.learning.build import BuiltModel, TrainingEvent, build_model
from recall.learning.pair_model import Feature
from tests.unit.recall.learning.events import HOUR, TAGS, make_events


def build(count: int, gap: int = HOUR) -> BuiltModel:
    events, tags = make_events(count)
    built = build_model(events, tags, gap)
    assert built is not None
    return built


def test_no_tags_make_no_model() -> None:
    events, _ = make_events(20)
    assert build_model(events, {}, HOUR) is None
    assert build_model([], {}, HOUR) is None


def test_tags_of_events_younger_than_the_gap_wait() -> None:
    events, tags = make_events(20)
    built = build_model(events, tags, 13 * HOUR)
    assert built is not None
    # Events are six hours apart: the newest three are too young for an event at the end.
    assert (built.resolutions, built.waiting) == (17, 3)
    assert built.learned_until == events[16].ts


def test_all_tags_are_learned_without_a_gap() -> None:
    built = build(20, gap=0)
    assert (built.resolutions, built.waiting) == (20, 0)


def test_forecast_follows_the_telling_term() -> None:
    stored = build(300).model
    for tag in TAGS:
        forecast = stored.forecast({f"msg={tag}": 1, "host=n1": 1}, 3)
        assert forecast.tags[0][0] == tag
        assert forecast.tags[0][1] > 0.6
        assert forecast.new_tag < 0.1


def test_forecast_of_an_unknown_event_is_less_certain() -> None:
    stored = build(300).model
    known = stored.forecast({"msg=disk": 1, "host=n1": 1}, 3)
    unknown = stored.forecast({"msg=flood": 1, "host=n99": 1}, 3)
    assert unknown.tags[0][1] < known.tags[0][1] - 0.03


def test_renamed_tag_replaces_the_old_one() -> None:
    """Tags are those that are known now: a model is built from all of them again."""
    events, tags = make_events(300)
    renamed = {event: "storage" if tag == "disk" else tag for event, tag in tags.items()}
    before, after = build_model(events, tags, HOUR), build_model(events, renamed, HOUR)
    assert before is not None and after is not None
    old = before.model.forecast({"msg=disk": 1}, 3)
    new = after.model.forecast({"msg=disk": 1}, 3)
    assert old.tags[0][0] == "disk" and new.tags[0][0] == "storage"
    np.testing.assert_allclose([p for _, p in old.tags], [p for _, p in new.tags])


def test_frequencies_count_a_burst_once() -> None:
    """A burst of one cause is one occurrence of it, as in fitting and evaluation."""
    burst = [
        TrainingEvent(f"a{n:02}", n, {"msg=disk": 1, f"user=u{n}": 1}, "n1") for n in range(30)
    ]
    other = TrainingEvent("b", 10 * HOUR, {"msg=net": 1}, "n1")
    tags = {event.event_id: "disk" for event in burst} | {"b": "net"}
    later = TrainingEvent("c", 30 * HOUR, {"msg=net": 1}, "n1")
    built = build_model([*burst, other, later], tags, HOUR)
    assert built is not None
    np.testing.assert_allclose(built.model.model.frequencies(), [1 / 3, 1 / 3, 1 / 3])


def test_group_counts_as_a_whole_once_its_last_event_is_old_enough() -> None:
    events, tags = make_events(20)
    grouped = [replace(event, group="g" if n >= 10 else None) for n, event in enumerate(events)]
    built = build_model(grouped, tags, HOUR)
    assert built is not None
    assert (built.resolutions, built.waiting) == (10, 10)


def test_judged_events_of_the_same_place_raise_its_weight() -> None:
    """Operators agree with past events of the same place, and disagree with all others."""
    events, tags = make_events(100)
    judgements = {}
    for number in range(50, 100):
        event = events[number]
        for past in events[number - 20 : number - 10]:
            judgements[event.event_id, past.event_id] = past.place == event.place
    without, judged = build_model(events, tags, HOUR), build_model(events, tags, HOUR, judgements)
    assert without is not None and judged is not None
    shares = []
    for built in (without, judged):
        pair_model = built.model.model.pair_model
        shares.append(pair_model.weights[Feature.PLACE] / np.abs(pair_model.weights).sum())
        assert np.sign(shares[-1]) == np.sign(pair_model.fitted_weights[Feature.PLACE])
    assert shares[1] > shares[0] + 0.03


def test_judgements_of_events_younger_than_the_gap_wait() -> None:
    """As their tags: the model may be used for a new event."""
    events, tags = make_events(100)
    newest = events[-1].event_id
    judgements = {(newest, events[0].event_id): True, (newest, events[1].event_id): False}
    without, judged = build_model(events, tags, HOUR), build_model(events, tags, HOUR, judgements)
    assert without is not None and judged is not None
    assert judged.model.to_bytes() == without.model.to_bytes()


def test_model_has_learned_until_the_newest_event_that_was_judged() -> None:
    """A recall about an event further back must not use it."""
    events, tags = make_events(100)
    old_tags = dict(list(tags.items())[:50])
    event = events[80]
    judgements = {(event.event_id, events[0].event_id): True}
    judgements[event.event_id, events[1].event_id] = False
    built = build_model(events, old_tags, HOUR, judgements)
    assert built is not None
    assert built.learned_until == event.ts


def test_judged_event_is_compared_with_what_was_known_when_it_occurred() -> None:
    """Its own tag, which became known later, makes no difference to what is learned from it."""
    events, tags = make_events(60)
    event = events[30]
    judgements = {
        (event.event_id, past.event_id): past.place == event.place for past in events[10:25]
    }
    old_tags = {past.event_id: tags[past.event_id] for past in events[:4]}
    weights = []
    for known_tags in (old_tags, {**old_tags, event.event_id: "flood"}):
        built = build_model(events, known_tags, HOUR, judgements)
        assert built is not None
        weights.append(built.model.model.pair_model.weights.tolist())
    assert weights[0] == weights[1]


@pytest.mark.parametrize("episode", [5, 60])
def test_copies_of_an_episode_change_no_weight(episode: int) -> None:
    events, tags = make_events(120)
    copies = [
        replace(events[episode], event_id=f"{events[episode].event_id}-{number:02d}")
        for number in range(50)
    ]
    copied_tags = {**tags, **{copy.event_id: tags[events[episode].event_id] for copy in copies}}
    copied_events = [*events[: episode + 1], *copies, *events[episode + 1 :]]
    once, copied = build_model(events, tags, HOUR), build_model(copied_events, copied_tags, HOUR)
    assert once is not None and copied is not None
    assert copied.resolutions == once.resolutions + 50
    for first, second in zip(list_weights(once), list_weights(copied), strict=True):
        np.testing.assert_allclose(second, first, rtol=0.01, atol=1e-9)


def list_weights(built: BuiltModel) -> list[np.ndarray]:
    model = built.model.model
    tag_arrays = model.tag_model.to_arrays()
    return [
        model.pair_model.weights,
        model.mixture.tags.weights,
        model.mixture.novelty.weights,
        model.calibration.best_weights,
        model.calibration.novelty_weights,
        np.array([model.calibration.temperature]),
        tag_arrays["weights"],
        tag_arrays["entry_weights"],
        tag_arrays["entry_counts"],
    ]
