"""Rules of alerts that other systems post. No I/O.

Such a rule has the key `external` instead of an event query: a post is an event, its labels are the
context `labels`, and the recall `similar` compares them. What a rule file declares is added. The
labels that its queries name, as `event.instance`, are attributes of the event.
"""

import hashlib
import re
from collections.abc import Mapping
from typing import Any

import orjson

from moirae.documents.types import ValueProblem, raise_problems

EXTERNAL_GROUP = "external"
EXTERNAL_PREFIX = f"{EXTERNAL_GROUP}/"
OTHER_ALERTS = "other"
"""The rule of alerts without a name, and of names beyond `limits.external_rules`."""

LABELS_CONTEXT = "labels"
LABELS_SQL = "SELECT event.labels AS labels"
"""The query of the context of labels. It stands for one row with a column for each label."""
LABELS_ATTRIBUTE = "labels"
"""The attribute of an event with its labels as a JSON object, sorted by name."""

_STREAM = "external_alerts"
_MAX_NAME = 63  # characters, see `moirae.documents.types.Title`
_HASH_LENGTH = 16
_PLAIN = re.compile(r"[A-Za-z0-9_]")
_ATTRIBUTE = re.compile(r"\bevent\.([A-Za-z_]\w{0,62})")
# Keys of a rule whose texts may name labels.
_QUERY_KEYS = ("context", "surroundings", "recall", "where", "then", "annotations")
# What every event has, besides its labels.
_OWN_ATTRIBUTES = frozenset({"ts", "eid", LABELS_ATTRIBUTE})


def encode_alert_name(name: str) -> str:
    """A name of an alert, any text, as the name of a rule: different names give different texts.

    Characters other than letters, digits and `_` become `-` and their code in hexadecimal digits; a
    first one that is no letter, `x-` and its code. Long names end with a hash.
    """
    if not name:
        return OTHER_ALERTS
    encoded = "".join(map(_encode_character, name))
    if not (name[0].isascii() and name[0].isalpha()) or encoded == OTHER_ALERTS:
        encoded = f"x-{ord(name[0]):x}-{encoded[len(_encode_character(name[0])) :]}"
    if len(encoded) <= _MAX_NAME:
        return encoded
    digest = hashlib.sha256(name.encode(errors="surrogatepass")).hexdigest()[:_HASH_LENGTH]
    return f"{encoded[: _MAX_NAME - _HASH_LENGTH - 2]}-x{digest}"


def complete_external_rule(data: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a rule with `external: true`, with those that every such rule has.

    Raises an error for `expr` and `key`, which follow from the others.
    """
    completed = dict(data)
    completed["context"] = _add_default(data.get("context"), LABELS_CONTEXT, {"sql": LABELS_SQL})
    # Equal alerts are alike from the second one on: frequencies tell nothing yet, and a label that
    # all alerts of the name have would weigh nothing.
    similar = {"similar": {"contexts": [LABELS_CONTEXT], "measure": "binary"}}
    completed["recall"] = _add_default(data.get("recall"), "similar", similar)
    completed["expr"] = _build_expr(completed)
    completed["key"] = [LABELS_ATTRIBUTE]
    for name in ("expr", "key"):
        if data.get(name) not in (None, completed[name]):
            raise_problems([ValueProblem((name,), "alerts that are posted have none; remove it")])
    return completed


def _encode_character(character: str) -> str:
    return character if _PLAIN.fullmatch(character) else f"-{ord(character):x}-"


def _add_default(entries: Any, name: str, default: Mapping[str, Any]) -> Any:
    """Entries of a rule by name, with a default one; what is no mapping is reported later."""
    if entries is None:
        return {name: default}
    if not isinstance(entries, Mapping):
        return entries
    return {name: default, **entries}


def _build_expr(data: Mapping[str, Any]) -> str:
    """The events as a query over the archived posts: their attributes and types."""
    text = orjson.dumps([data.get(key) for key in _QUERY_KEYS], default=_to_json).decode()
    names = sorted(set(_ATTRIBUTE.findall(text)) - _OWN_ATTRIBUTES)
    columns = ["ts", LABELS_ATTRIBUTE]
    columns += [f"get_json_object({LABELS_ATTRIBUTE}, '$.{name}') AS {name}" for name in names]
    alert = data.get("alert")
    # The name of the alert as it was posted is known to the live process only.
    return f"SELECT {', '.join(columns)} FROM {_STREAM} WHERE alertname = '{alert}'"


def _to_json(value: Any) -> Any:
    """Values of models and of YAML readers."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True)
    return str(value)
