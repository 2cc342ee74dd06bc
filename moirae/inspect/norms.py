"""Answers of recalls as series of Prometheus: what is normal where an alert fires, and its values.

Labels are the key of the alert, text columns of the answer, the rule and the recall. No I/O.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from prometheus_client.metrics_core import GaugeMetricFamily, Metric

from moirae.inspect.past_events import count_chunks
from sql.reports import LastKeyAnswerRow

_NO_LABEL_CHARACTER = re.compile(r"[^a-zA-Z0-9_]")
_MAX_VALUE = 200  # characters of the value of a label
# Names of labels with a meaning of their own; a column of the name gets a prefix.
_RESERVED = frozenset({"rule", "recall", "column", "rank", "le", "quantile"})

Labels = dict[str, str]


def make_norm_metrics(rows: Iterable[LastKeyAnswerRow]) -> list[Metric]:
    """The series of answers. Of several with equal labels the first one, of the newest alert."""
    families = _Families()
    for row in rows:
        labels = {"rule": row.rule, **_make_labels(row.key)}
        if row.kind == "event":
            families.add("moirae_alert_firing", labels, float(row.state != "resolved"))
            for values in row.answer:
                families.add_columns("moirae_alert_value", labels, values, set(row.key))
            continue
        labels["recall"] = row.recall or ""
        if row.kind == "similar":
            for hit in row.answer[:1]:
                families.add("moirae_similar_best_score", labels, hit["score"])
            if row.comparable is not None:
                families.add("moirae_similar_comparable_probability", labels, row.comparable)
        else:
            for values in row.answer:
                families.add_columns("moirae_norm", labels, values, set(row.key))
        if row.coverage is not None:
            known_count, chunk_count = count_chunks(row.coverage)
            share = known_count / chunk_count if chunk_count else 1.0
            families.add("moirae_answer_coverage_ratio", labels, share)
            families.add("moirae_answer_final", labels, float(bool(row.coverage["final"])))
    return list(families.collect())


_HELP = {
    "moirae_alert_firing": "1 while the newest alert of a key fires.",
    "moirae_alert_value": "Numbers of the last event of the newest alert of a key, by column.",
    "moirae_norm": "Numbers of the last answer of an SQL recall about that alert, by column.",
    "moirae_similar_best_score": "Score of the most similar past alert, from 0 to 1.",
    "moirae_similar_comparable_probability": "Probability that it is of the same kind.",
    "moirae_answer_coverage_ratio": "Share of the chunks of its range that an answer has read.",
    "moirae_answer_final": "1 if an answer will not change.",
}


class _Families:
    """Series by metric; each set of labels once."""

    def __init__(self) -> None:
        self._series: dict[str, dict[tuple[tuple[str, str], ...], float]] = {
            name: {} for name in _HELP
        }

    def add(self, name: str, labels: Mapping[str, str], value: float) -> None:
        self._series[name].setdefault(tuple(sorted(labels.items())), value)

    def add_columns(
        self, name: str, labels: Labels, values: Mapping[str, Any], key: set[str]
    ) -> None:
        """Numbers of a row as series with its texts as labels. `key`: columns that are labels."""
        measured = {column: value for column, value in values.items() if column not in key}
        texts = {column: value for column, value in measured.items() if isinstance(value, str)}
        described = {**_make_labels(texts), **labels}
        for column, value in measured.items():
            if isinstance(value, int | float) and not isinstance(value, bool):
                self.add(name, {**described, "column": column}, float(value))

    def collect(self) -> Iterator[Metric]:
        for name, series in self._series.items():
            family = GaugeMetricFamily(name, _HELP[name])
            for labels, value in series.items():
                family.add_sample(name, dict(labels), value)
            yield family


def _make_labels(columns: Mapping[str, Any]) -> Labels:
    """Columns as labels; those without a value are left out, as Prometheus does."""
    labels = {}
    for column, value in columns.items():
        name = _NO_LABEL_CHARACTER.sub("_", column)
        if name in _RESERVED or name.startswith("__") or not name or name[0].isdigit():
            name = f"key_{name.lstrip('_')}"
        text = value if isinstance(value, str) else "" if value is None else str(value)
        if text:
            labels[name] = text[:_MAX_VALUE]
    return labels
