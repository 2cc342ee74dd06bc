"""Steps from the running rules to the desired ones."""

from hypothesis import given
from hypothesis import strategies as st

from moirae.deployments.plan import AppliedVersion, changing_steps, plan_steps

RULES = st.dictionaries(
    st.sampled_from("abcde"),
    st.builds(AppliedVersion, st.sampled_from("12"), st.sampled_from("xy")),
)


@given(desired=RULES, running=RULES)
def test_steps_lead_from_running_to_desired_and_touch_nothing_else(
    desired: dict[str, AppliedVersion], running: dict[str, AppliedVersion]
) -> None:
    steps = plan_steps(desired, running)
    assert [step.rule for step in steps] == sorted(desired.keys() | running.keys())
    after = dict(running)
    for step in changing_steps(steps):
        assert desired.get(step.rule) != running.get(step.rule)
        if step.action == "stop":
            del after[step.rule]
        else:
            after[step.rule] = desired[step.rule]
    assert after == desired


def test_step_of_each_kind_names_versions_before_and_after() -> None:
    desired = {
        "new": AppliedVersion("1", "x"),
        "same": AppliedVersion("1", "x"),
        "other": AppliedVersion("2", "y"),
        "text": AppliedVersion("1", "y"),
    }
    running = {
        "old": AppliedVersion("1", "x"),
        **{rule: AppliedVersion("1", "x") for rule in ("same", "other", "text")},
    }
    steps = [
        (step.action, step.rule, step.before, step.after) for step in plan_steps(desired, running)
    ]
    assert steps == [
        ("start", "new", None, "1"),
        ("stop", "old", "1", None),
        ("change", "other", "1", "2"),
        ("stay", "same", "1", "1"),
        ("update", "text", "1", "1"),
    ]
