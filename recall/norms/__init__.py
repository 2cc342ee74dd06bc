"""Norms: what is normal for a value at this time, from the earlier rows of its key. No I/O.

A recall `normal` reads rows as any recall does. What it answers is computed from these rows and
the spans of past alerts: `answer` chooses the season (`season_choice`), leaves out such spans
(`exclusions`) and places the event's value among the rest by cycles (`position`, `words`).
"""

from recall.norms.answer import compute_norm
from recall.norms.band import compute_band
from recall.norms.model import (
    MAX_ROWS,
    NORM_COLUMNS,
    VALUE_COLUMN,
    AlertSpan,
    Exclusion,
    NormSpec,
    SeasonSetting,
)
from recall.norms.position import MIN_CYCLES

__all__ = [
    "MAX_ROWS",
    "MIN_CYCLES",
    "NORM_COLUMNS",
    "VALUE_COLUMN",
    "Exclusion",
    "NormSpec",
    "AlertSpan",
    "SeasonSetting",
    "compute_band",
    "compute_norm",
]
