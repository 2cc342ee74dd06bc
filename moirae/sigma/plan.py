"""What an import changes: texts of rule files and the lock, from what there is. No I/O."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from moirae.sigma.generate import GeneratedRule, GeneratedRules
from moirae.sigma.lock import LockedRule, LockFile
from moirae.sigma.merge import KeyPath, merge_rule
from moirae.sigma.metadata import ID_LABEL, make_name
from moirae.sigma.report import ImportReport, MergeConflict
from moirae.sigma.yaml_text import RuleFileText, write_header, write_rule

_FILE_RULES = 200  # rules of a file; a file has room for their growth
_FILE_CHARACTERS = 400_000
_MAX_GROUP_NAME = 60
_HEADER = "Imported by `moirae rules import-sigma`. Local changes are kept when it is run again."


@dataclass
class ImportPlan:
    """The new texts of changed rule files by name, the new lock, and what to report."""

    texts: dict[str, str]
    lock: LockFile
    report: ImportReport


def plan_import(
    generated: GeneratedRules,
    lock: LockFile,
    files: Mapping[str, RuleFileText],
    reserved_names: Collection[str] = (),
) -> ImportPlan:
    """Merge the rules of a collection with rule files.

    `files`: the rule files of the import, by name; `reserved_names`: of groups in other rule files.
    """
    planner = _Planner(lock, files, reserved_names)
    planner.report.left_out = generated.left_out
    planner.report.correlated = generated.correlated
    planner.report.warnings = generated.warnings
    for rule in generated.rules:
        planner.add(rule)
    planner.note_removed({rule.sigma_id for rule in generated.rules})
    return planner.finish()


@dataclass
class _FileChanges:
    edits: dict[str, dict[KeyPath, Any]] = field(default_factory=dict)
    new_rules: list[str] = field(default_factory=list)


class _Planner:
    def __init__(
        self, lock: LockFile, files: Mapping[str, RuleFileText], reserved_names: Collection[str]
    ) -> None:
        self.report = ImportReport()
        self._lock = LockFile(lock.stream, dict(lock.rules))
        self._files = files
        self._changes: dict[str, _FileChanges] = {}
        self._reserved_names = frozenset(reserved_names)
        self._locations: dict[str, str] = {}  # alert name -> file
        self._names_by_id: dict[str, str] = {}
        for file, text in files.items():
            for name in text.rules:
                self._locations.setdefault(name, file)
                labels = text.values(name).get("labels")
                if isinstance(labels, Mapping) and ID_LABEL in labels:
                    self._names_by_id.setdefault(str(labels[ID_LABEL]), name)
        self._names = {rule.alert for rule in lock.rules.values()} | self._locations.keys()

    def add(self, rule: GeneratedRule) -> None:
        """Plan one rule: added, merged, or left as it is."""
        locked = self._lock.rules.get(rule.sigma_id)
        name = self._find_name(rule.sigma_id, locked)
        if name is None:
            if locked is not None:
                self.report.deleted.append(locked.alert)
                return
            self._add_new(rule)
            return
        file = self._locations[name]
        base = locked.base if locked is not None else {}
        self._lock.rules[rule.sigma_id] = LockedRule(name, file, rule.values, rule.source)
        self._merge(name, file, base, rule.values)

    def note_removed(self, present: Collection[str]) -> None:
        """Report rules that were imported before and are not in the collection now."""
        for sigma_id, locked in self._lock.rules.items():
            if sigma_id not in present and locked.alert in self._locations:
                self.report.removed.append(locked.alert)
        self.report.removed.sort()

    def finish(self) -> ImportPlan:
        texts: dict[str, str] = {}
        for file, changes in self._changes.items():
            original = self._files.get(file)
            if original is None:
                texts[file] = write_header(_group_of(file), _HEADER) + "".join(changes.new_rules)
            else:
                texts[file] = original.edit(changes.edits, changes.new_rules)
        self.report.files = sorted(texts)
        return ImportPlan(texts, self._lock, self.report)

    def _find_name(self, sigma_id: str, locked: LockedRule | None) -> str | None:
        """The name that a rule has in the files; None: it is in none."""
        if locked is not None and locked.alert in self._locations:
            return locked.alert
        return self._names_by_id.get(sigma_id)

    def _merge(
        self, name: str, file: str, base: Mapping[str, Any], incoming: Mapping[str, Any]
    ) -> None:
        text = self._files[file]
        result = merge_rule(base, text.values(name), incoming)
        conflicts = list(result.conflicts)
        if result.changes and not text.can_edit(name):
            conflicts += result.changes
            result = result._replace(changes={})
        for path in conflicts:
            self.report.conflicts.append(MergeConflict(name, file, ".".join(path)))
        if result.changes:
            self._file(file).edits[name] = result.changes
            self.report.updated.append(name)
        else:
            self.report.unchanged.append(name)

    def _add_new(self, rule: GeneratedRule) -> None:
        name = self._make_unique_name(rule)
        values = {"alert": name, **rule.values}
        text = write_rule(values)
        file = self._choose_file(rule.topic, len(text))
        self._file(file).new_rules.append(text)
        self._lock.rules[rule.sigma_id] = LockedRule(name, file, rule.values, rule.source)
        self.report.added.append(name)

    def _make_unique_name(self, rule: GeneratedRule) -> str:
        name = make_name(rule.title, rule.sigma_id)
        if name in self._names:
            name = f"sigma-{rule.sigma_id}"
        self._names.add(name)
        return name

    def _choose_file(self, topic: str, size: int) -> str:
        """The file of a topic that has room, or a new one."""
        words = re.sub(r"[^a-z0-9]+", "_", topic.lower()).strip("_")
        stem = f"sigma_{self._lock.stream}_{words}"[:_MAX_GROUP_NAME].rstrip("_")
        number = 1
        while True:
            file = f"{stem}.yaml" if number == 1 else f"{stem}_{number}.yaml"
            is_free = _group_of(file) not in self._reserved_names
            if is_free and self._has_room(file, size):
                return file
            number += 1

    def _has_room(self, file: str, size: int) -> bool:
        count = 0
        text = self._files.get(file)
        if text is not None:
            # New rules are added to the last group of a file.
            if text.groups[-1:] != [_group_of(file)] or not text.ends_with_rules:
                return False
            count, size = count + len(text.rules), size + text.size
        new_rules = self._changes.get(file, _FileChanges()).new_rules
        count, size = count + len(new_rules), size + sum(map(len, new_rules))
        return count < _FILE_RULES and size < _FILE_CHARACTERS

    def _file(self, file: str) -> _FileChanges:
        return self._changes.setdefault(file, _FileChanges())


def _group_of(file: str) -> str:
    """The group that is written to a new file."""
    return file.removesuffix(".yaml")


def list_group_names(files: Sequence[RuleFileText]) -> set[str]:
    """The groups of rule files."""
    return {name for file in files for name in file.groups}
