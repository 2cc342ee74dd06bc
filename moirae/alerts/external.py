"""Alerts that other systems post: which posts are about the same alert, and when it ends. No I/O.

A post names the labels of an alert, its start and, mostly, its end: of an alert that fires, a time
soon to come, which later posts move on. Without an end an alert fires for a time after the post, which
the reader of the post adds. Several servers may post one alert, each with a start of its own: it ends when all of them
say so.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from archiver.times import Micros
from moirae.alerts.event import Event, EventRow, make_event_id, make_fingerprint, write_object
from moirae.rules import LABELS_ATTRIBUTE

# Starts of one alert that are told apart; of more, those that end first are forgotten.
_MAX_STARTS = 16


@dataclass(frozen=True)
class AlertPost:
    """A post about an alert. Times in microseconds; `at`: of the clock when it was received.

    `ends`: when the alert ends unless another post follows.
    """

    at: Micros
    labels: Mapping[str, str]
    starts: Micros
    ends: Micros
    annotations: Mapping[str, str]


@dataclass(frozen=True)
class PostedAlert:
    """An alert by its posts so far.

    `starts`: by its first post, which gives its event. `ends`: for each start that was posted, until
    when it fires. `annotations`: of the newest post, received at `posted`.
    """

    starts: Micros
    posted: Micros
    ends: Mapping[Micros, Micros]
    annotations: Mapping[str, str]

    @property
    def fires_until(self) -> Micros:
        """When it ends unless another post follows."""
        return max(self.ends.values())


class Continuation(NamedTuple):
    """What a post makes of the alerts with its labels. `is_new`: it begins another alert."""

    alert: PostedAlert
    is_new: bool


def begin_alert(post: AlertPost) -> PostedAlert:
    """The alert that begins with a post."""
    return PostedAlert(post.starts, post.at, {post.starts: post.ends}, post.annotations)


def continue_alert(latest: PostedAlert | None, post: AlertPost) -> Continuation:
    """The alert that a post is about. `latest`: the alert with its labels that started last."""
    if latest is None:
        return Continuation(begin_alert(post), is_new=True)
    is_known = post.starts in latest.ends
    if not is_known and post.starts > latest.fires_until:
        return Continuation(begin_alert(post), is_new=True)
    if not is_known and post.ends <= min(post.at, latest.starts):
        return Continuation(latest, is_new=False)  # it is about an earlier alert, which has ended
    if post.at < latest.posted and is_known:
        return Continuation(latest, is_new=False)  # overtaken by a newer post
    ends = {**latest.ends, post.starts: post.ends}
    for start in sorted(ends, key=lambda start: ends[start])[:-_MAX_STARTS]:
        del ends[start]
    is_newest = post.at >= latest.posted
    continued = replace(
        latest,
        ends=ends,
        posted=max(latest.posted, post.at),
        annotations=post.annotations if is_newest else latest.annotations,
    )
    return Continuation(continued, is_new=False)


def make_external_event(rule: str, columns: Iterable[str], post: AlertPost) -> Event:
    """The event that a post is about. `columns`: the attributes of the rule's events.

    Its key are the labels, which are its attributes too, and one with all of them as JSON.
    """
    labels = dict(sorted(post.labels.items()))
    text = write_object(labels)
    identity = {LABELS_ATTRIBUTE: text}
    return Event(
        eid=make_event_id(rule, (LABELS_ATTRIBUTE,), EventRow(post.starts, identity)),
        ts=post.starts,
        key=labels,
        fingerprint=make_fingerprint(identity),
        attributes={**dict.fromkeys(columns), **labels, **identity},
    )
