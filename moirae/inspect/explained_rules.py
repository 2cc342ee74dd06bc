"""Which applied rules have to be compiled to explain one of them. No I/O."""

import re
from collections.abc import Mapping

_MAX_RULES = 100  # with the same text
_MAX_TEXTS = 256
# Texts, numbers and white space: what differs between rules of one shape.
_CONSTANT = re.compile(r"'(?:[^'\\]|\\.)*'|\b\d[\d.]*|\s+", re.DOTALL)


def select_explained_rules(event_queries: Mapping[str, str], name: str) -> list[str]:
    """The names of the rules that may share a query with one of them, and of some others.

    `event_queries`: by rule. First come those whose texts differ from that of the rule in constants
    alone, at most 100. The others tell whether there are many shapes of rules: one rule for each of
    at most 256 texts.
    """
    names_by_text: dict[str, list[str]] = {}
    for rule, query in event_queries.items():
        names_by_text.setdefault(_CONSTANT.sub("", query), []).append(rule)
    similar = names_by_text.pop(_CONSTANT.sub("", event_queries[name]))
    similar = [name, *(rule for rule in similar if rule != name)]
    other_shapes = [names[0] for names in names_by_text.values()]
    return similar[:_MAX_RULES] + other_shapes[:_MAX_TEXTS]
