"""Labels and annotations of an imported rule, from what its Sigma rule says about itself. No I/O."""

import re
from collections.abc import Iterable

from sigma.correlations import SigmaCorrelationRule
from sigma.rule import SigmaRule

from moirae.sigma.model import SigmaMap

ID_LABEL = "sigma_id"
_MAX_ANNOTATION = 20_000  # characters
_MAX_NAME = 63
_ID_DIGITS = 8  # of an ID at the end of a name
# Characters that rule files exclude.
_FORBIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff\ud800-\udfff]")
_TEMPLATE_MARKS = re.compile(r"\{(?=[{%#])")

AnyRule = SigmaRule | SigmaCorrelationRule


def make_name(title: str, sigma_id: str) -> str:
    """The name of an alert: words of the title, then digits of the ID."""
    words = re.sub(r"[^A-Za-z0-9]+", "_", title).strip("_").lower()
    if not words[:1].isalpha():
        words = f"sigma_{words}"
    digits = sigma_id.replace("-", "")[:_ID_DIGITS]
    return f"{words[: _MAX_NAME - _ID_DIGITS - 1].rstrip('_')}-{digits}"


def make_labels(
    rule: AnyRule, sigma_id: str, tags: Iterable[str], sigma_map: SigmaMap
) -> dict[str, str]:
    """The labels: what routes and silences match."""
    level = _name(rule.level)
    labels = {
        "severity": sigma_map.severity.get(level, level),
        "level": level,
        "status": _name(rule.status),
        "tags": ",".join(tags),
        "category": "",
        "product": "",
        "service": "",
        ID_LABEL: sigma_id,
    }
    if isinstance(rule, SigmaRule):
        for name in ("category", "product", "service"):
            labels[name] = getattr(rule.logsource, name) or ""
    return _clean(labels, is_template=False)


def make_annotations(rule: AnyRule, sigma_map: SigmaMap) -> dict[str, str]:
    """The annotations: texts for readers, as templates that only hold text."""
    annotations = {
        "summary": rule.title,
        "description": rule.description or "",
        "references": _lines(rule.references),
        "falsepositives": _lines(rule.falsepositives),
        "author": rule.author or "",
        "date": str(rule.date or ""),
        "modified": str(rule.modified or ""),
        "license": rule.license or sigma_map.license or "",
    }
    return _clean(annotations, is_template=True)


def _clean(texts: dict[str, str], is_template: bool) -> dict[str, str]:
    cleaned: dict[str, str] = {}
    for name, text in texts.items():
        text = _FORBIDDEN.sub(" ", text.replace("\r\n", "\n"))
        text = "\n".join(line.rstrip() for line in text.split("\n")).strip()[:_MAX_ANNOTATION]
        if is_template:
            text = _TEMPLATE_MARKS.sub("{{ '{' }}", text)
        if text:
            cleaned[name] = text
    return cleaned


def _lines(values: Iterable[object] | None) -> str:
    return "\n".join(str(value) for value in values or () if value is not None)


def _name(value: object) -> str:
    """The name of a level or status in lower case."""
    return "" if value is None else str(value).lower()
