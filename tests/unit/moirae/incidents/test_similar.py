"""Similar incidents: by the contexts of all of their alerts."""

from uuid import UUID

from moirae.incidents.similar import IncidentContext, list_terms, make_context, rank_similar


def make_incident(number: int, *alerts: str) -> IncidentContext:
    return make_context(UUID(int=number), number, [terms.split() for terms in alerts])


def test_incidents_with_rare_terms_in_common_come_first() -> None:
    past = [
        make_incident(1, "site=eu disk=full", "site=eu host=a1"),
        make_incident(2, "site=eu deploy=web"),
        make_incident(3, "site=eu"),
        make_incident(4, "site=eu cpu=high"),
    ]
    similar = rank_similar(make_incident(9, "site=eu disk=full", "site=eu"), past, 2)
    assert [entry.id for entry in similar] == [UUID(int=1)]
    assert similar[0].shared == ["disk=full"]


def test_terms_of_more_alerts_weigh_more() -> None:
    past = [make_incident(1, "a=1", "b=1"), make_incident(2, "a=1", "a=1", "a=1", "b=1")]
    past.append(make_incident(3, "c=1"))
    similar = rank_similar(make_incident(9, "a=1", "a=1", "a=1", "b=1"), past, 5)
    assert [entry.id for entry in similar] == [UUID(int=2), UUID(int=1)]


def test_the_newer_of_equal_ones_comes_first() -> None:
    past = [make_incident(1, "a=1"), make_incident(2, "a=1"), make_incident(3, "b=1")]
    similar = rank_similar(make_incident(9, "a=1"), past, 1)
    assert [entry.id for entry in similar] == [UUID(int=2)]


def test_without_past_there_is_nothing_similar() -> None:
    assert rank_similar(make_incident(9, "a=1"), [], 5) == []


def test_terms_name_rule_key_and_contexts() -> None:
    contexts = {"calls": [{"service": "web", "slow": "12"}, {"service": "web", "slow": None}]}
    assert set(list_terms("g/Slow", {"host": 1, "site": None}, contexts)) == {
        "rule=g/Slow",
        "host=1",
        "service=web",
        "slow=12",
    }
