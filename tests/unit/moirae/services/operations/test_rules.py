"""Rules named by operators, and the files that they send."""

import pytest

from moirae.errors import NotFound, UsageError
from moirae.services.operations.rules import RuleDocument, _write_files, find_rule

NAMES = ["web/Slow", "web/Down", "db/Down"]


@pytest.mark.parametrize(("name", "rule"), [("Slow", "web/Slow"), ("db/Down", "db/Down")])
def test_rule_is_found_with_or_without_its_group(name: str, rule: str) -> None:
    assert find_rule(NAMES, name) == rule


def test_rule_in_several_groups_is_ambiguous() -> None:
    with pytest.raises(UsageError, match="rule 'Down' is ambiguous: web/Down, db/Down"):
        find_rule(NAMES, "Down")


def test_unknown_rule_suggests_a_similar_name() -> None:
    with pytest.raises(NotFound, match="no rule 'Slwo', did you mean Slow"):
        find_rule(NAMES, "Slwo")


def test_sent_files_exist_under_other_names_for_the_duration_of_the_check() -> None:
    files = [RuleDocument(name="../../etc/passwd", content="groups: []")]
    with _write_files(files, allow_paths=False) as names:
        (path,) = names
        assert path.read_text() == "groups: []"
        assert names == {path: "../../etc/passwd"}
    assert not path.exists()


def test_files_of_the_server_cannot_be_named() -> None:
    files = [RuleDocument(name="/etc/passwd")]
    with (
        pytest.raises(UsageError, match="content of the file is missing"),
        _write_files(files, allow_paths=False),
    ):
        pass
