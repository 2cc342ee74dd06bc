"""The YAML of one rule: cut out of its file, or written from the rule as it is stored. No I/O."""

from io import StringIO
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import LiteralScalarString

from moirae.rules.model import Group
from moirae.rules.parameters import find_used_parameters
from moirae.rules.parse import parse_rules
from moirae.rules.rule_set import Rule, has_same_alerts

_MAX_WIDTH = 100_000  # characters: long lines stay as they are
_FLOW_LENGTH = 60  # characters of a mapping or list that stands in one line


def extract_rule(text: str, name: str) -> str | None:
    """A rule file with one rule of another one: its group, derived streams and comments.

    None if the file has no such rule, or if it would not be the same rule alone.
    """
    yaml = _make_yaml()
    try:
        content = yaml.load(text)
        for group in content["groups"]:
            for rule in group.get("rules") or ():
                if f"{group['name']}/{rule['alert']}" == name:
                    group["rules"] = [rule]
                    cut = _dump(yaml, {"groups": [group]})
                    return cut if _is_same_rule(text, cut, name) else None
    except (YAMLError, LookupError, AttributeError, TypeError, ValueError):
        return None  # of whatever shape the file is, the stored rule can be written
    return None


def render_rule(rule: Rule) -> str:
    """A rule file with one rule, without keys that have their defaults. Comments are not stored."""
    stored = Group.model_validate(rule.to_json())
    content = stored.model_dump(mode="json", by_alias=True, exclude_defaults=True)
    # Its SQL has the values in it.
    used = find_used_parameters(rule.spec)
    parameters = content["rules"][0].pop("parameters", {})
    if shown := {name: value for name, value in parameters.items() if name in used}:
        content["rules"][0]["parameters"] = shown
    return _dump(_make_yaml(), {"groups": [_arrange(content)]})


def _is_same_rule(text: str, cut: str, name: str) -> bool:
    rules = [
        next((rule for rule in parse_rules(name, source)[0].rules if rule.id == name), None)
        for source in (text, cut)
    ]
    rule, cut_rule = rules
    return rule is not None and cut_rule is not None and has_same_alerts(rule, cut_rule)


def _make_yaml() -> YAML:
    yaml = YAML(typ="rt")
    yaml.width = _MAX_WIDTH
    yaml.preserve_quotes = True
    return yaml


def _dump(yaml: YAML, content: Any) -> str:
    out = StringIO()
    yaml.dump(content, out)
    return out.getvalue()


def _arrange(value: Any) -> Any:
    """Values as a person would write them: texts of several lines as blocks, short ones in a line."""
    if isinstance(value, dict):
        arranged = {name: _arrange(entry) for name, entry in value.items()}
        return _in_one_line(arranged)
    if isinstance(value, list):
        return _in_one_line([_arrange(entry) for entry in value])
    if isinstance(value, str) and "\n" in value.strip():
        return LiteralScalarString(value)
    return value


def _in_one_line(value: Any) -> Any:
    entries = list(value.values()) if isinstance(value, dict) else value
    arranged = CommentedMap(value) if isinstance(value, dict) else CommentedSeq(value)
    is_plain = all(not isinstance(entry, dict | list) for entry in entries)
    if is_plain and len(str(value)) <= _FLOW_LENGTH and "\n" not in str(value):
        arranged.fa.set_flow_style()
    return arranged
