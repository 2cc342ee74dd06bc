"""Where rules are written."""

from moirae.sigma.generate import GeneratedRule, GeneratedRules
from moirae.sigma.lock import LockedRule, LockFile
from moirae.sigma.plan import plan_import
from moirae.sigma.yaml_text import RuleFileText

VALUES = {"expr": "SELECT 1", "key": ["host"], "labels": {"sigma_id": "a"}}


def generated(*ids: str, topic: str = "windows") -> GeneratedRules:
    return GeneratedRules([GeneratedRule(name, "Title", topic, "f.yml", VALUES) for name in ids])


def test_new_rules_go_into_a_file_of_their_log_source() -> None:
    plan = plan_import(generated("a", topic="windows_ps script"), LockFile("s"), {})
    assert list(plan.texts) == ["sigma_s_windows_ps_script.yaml"]
    assert "- name: sigma_s_windows_ps_script\n" in plan.texts["sigma_s_windows_ps_script.yaml"]
    assert plan.lock.rules["a"].alert == "title-a"


def test_group_of_another_file_is_not_taken() -> None:
    plan = plan_import(generated("a"), LockFile("s"), {}, {"sigma_s_windows"})
    assert list(plan.texts) == ["sigma_s_windows_2.yaml"]


def test_rules_of_one_title_and_beginning_have_different_names() -> None:
    plan = plan_import(generated("a0000000-1", "a0000000-2"), LockFile("s"), {})
    assert plan.report.added == ["title-a0000000", "sigma-a0000000-2"]


def test_file_that_was_rearranged_gets_no_new_rules() -> None:
    text = "groups:\n- name: mine\n  rules:\n  - {alert: x, expr: SELECT 1}\n"
    plan = plan_import(generated("a"), LockFile("s"), {"sigma_s_windows.yaml": RuleFileText(text)})
    assert list(plan.texts) == ["sigma_s_windows_2.yaml"]


def test_rule_of_the_lock_that_is_in_no_file_was_deleted() -> None:
    lock = LockFile("s", {"a": LockedRule("title-a", "sigma_s_windows.yaml", VALUES)})
    plan = plan_import(generated("a"), lock, {})
    assert (plan.report.deleted, plan.texts) == (["title-a"], {})
