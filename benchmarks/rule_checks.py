"""RS4: `moirae rules check` of 1,200 rules of many shapes, again, and with one rule changed.

The rules are the detection rules of shared/data/sigma and as many with other constants. Each
repetition has a new workspace. The check with one changed rule is compared with one of a workspace
with that rule alone.
"""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from benchmarks.fixtures import temporary_folder
from benchmarks.results import BenchmarkResult, make_result
from benchmarks.timing import measure_seconds, time_noise_kernel
from tests.sigma_collection import (
    DetectionRule,
    find_folder,
    read_collection,
    write_rules,
    write_workspace,
)

_REPETITIONS = 3
_RULES = 1_200
_FILES = 3  # a rule file has at most 1 MiB


def run() -> list[BenchmarkResult]:
    """RS4; nothing where this machine has no detection rules."""
    folder = find_folder()
    if folder is None:
        print("RS4: shared/data/sigma is not on this machine", file=sys.stderr)
        return []
    rules = list(make_many_rules(read_collection(folder).rules))
    first, again, changed, noise = [], [], [], []
    for _ in range(_REPETITIONS):
        noise.append(time_noise_kernel())
        with temporary_folder() as root:
            workspace = write_workspace(root / "many", [])
            write_rule_files(workspace, rules)
            first.append(_check(workspace))
            again.append(_check(workspace))
            changed_rule = _change(rules[0], "changed")
            write_rule_files(workspace, [changed_rule, *rules[1:]])
            seconds = _check(workspace)
            single = write_workspace(root / "single", [])
            write_rule_files(single, [changed_rule])
            changed.append(seconds / _check(single))
    return [
        make_result(
            "RS4", f"rules check of {_RULES:,} rules, s", first, target="≤ 20", noise=noise
        ),
        make_result("RS4", "rules check again, s", again, target="≤ 3", noise=noise),
        make_result("RS4", "one of them changed ÷ one rule", changed, target="≤ 1.3", noise=noise),
    ]


def make_many_rules(rules: Sequence[DetectionRule]) -> Iterator[DetectionRule]:
    """The rules, then rules with other constants until there are 1,200."""
    for number in range(_RULES):
        rule = rules[number % len(rules)]
        copy = number // len(rules)
        yield rule if copy == 0 else _change(rule, f"copy{copy}")


def _change(rule: DetectionRule, suffix: str) -> DetectionRule:
    name = f"{rule.name[:50]}_{suffix}"
    condition = rule.condition.replace(".exe", f"{suffix}.exe").replace(".dll", f"{suffix}.dll")
    return rule._replace(name=name, condition=f"({condition}) AND Computer <> '{suffix}'")


def write_rule_files(workspace: Path, rules: Sequence[DetectionRule]) -> None:
    """Replace the rule files of a workspace. Their groups are detection0, detection1 and so on."""
    for file in (workspace / "rules").iterdir():
        file.unlink()
    size = -(-len(rules) // _FILES)
    for number, start in enumerate(range(0, len(rules), size)):
        group = f"detection{number}"
        write_rules(workspace / "rules" / f"{group}.yaml", rules[start : start + size], group)


def _check(workspace: Path) -> float:
    """The seconds of `moirae rules check`, from start to exit."""
    command = [sys.executable, "-m", "moirae", "rules", "check", "--workspace"]
    command.append(str(workspace / "moirae.yaml"))
    return measure_seconds(lambda: subprocess.run(command, check=True, capture_output=True))
