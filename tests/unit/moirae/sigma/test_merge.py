"""Three-way merge of a rule: local edits stay."""

from moirae.sigma.merge import merge_rule

BASE = {"expr": "SELECT 1", "key": ["a"], "labels": {"level": "low", "tags": "x"}}


def test_upstream_change_of_an_unedited_key_is_taken() -> None:
    incoming = {**BASE, "expr": "SELECT 2"}
    assert merge_rule(BASE, BASE, incoming) == ({("expr",): "SELECT 2"}, [])


def test_local_edit_and_local_keys_stay() -> None:
    local = {**BASE, "expr": "SELECT 9", "enabled": "false"}
    assert merge_rule(BASE, local, BASE) == ({}, [])
    assert merge_rule(BASE, local, {**BASE, "key": ["b"]}) == ({("key",): ["b"]}, [])


def test_labels_are_merged_one_by_one() -> None:
    local = {**BASE, "labels": {"level": "low", "tags": "x", "team": "red"}}
    incoming = {**BASE, "labels": {"level": "high", "status": "test"}}
    changes = {("labels", "level"): "high", ("labels", "tags"): None, ("labels", "status"): "test"}
    assert merge_rule(BASE, local, incoming) == (changes, [])


def test_both_sides_changed_differently_is_a_conflict() -> None:
    local = {**BASE, "labels": {"tags": "x"}}
    incoming = {**BASE, "labels": {"level": "high", "tags": "x"}}
    assert merge_rule(BASE, local, incoming) == ({}, [("labels", "level")])


def test_same_change_on_both_sides_is_none() -> None:
    changed = {**BASE, "expr": "SELECT 2"}
    assert merge_rule(BASE, changed, changed) == ({}, [])


def test_without_a_base_what_differs_is_a_conflict() -> None:
    assert merge_rule({}, BASE, BASE) == ({}, [])
    assert merge_rule({}, BASE, {**BASE, "expr": "SELECT 2"}) == ({}, [("expr",)])
