"""Settings of alerts: how long they stay, and how they are grouped into incidents."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from moirae.config.durations import PositiveDuration
from moirae.documents.types import ConfigModel, Number

MAX_STEPS = 5


class AlertSettings(ConfigModel):
    """Retention of alerts, apart from rows."""

    keep: PositiveDuration | None = Field(
        default=None,
        description="Event time after their end for which alerts stay with their notes, messages and "
        "answers, whatever becomes of their rows; null: alerts with notes or judged hits stay, others go "
        "with their rows.",
    )


class IncidentSettings(ConfigModel):
    """When alerts are proposed as one incident: near in time, with an overlap.

    The overlap is that of their contexts, of their places, or of the changes before them,
    whichever is highest.
    """

    threshold: Annotated[Number, Field(gt=0, le=1)] = Field(
        default=0.4, description="The least overlap, from 0 to 1; higher: fewer, smaller incidents."
    )
    within: PositiveDuration = Field(
        default=timedelta(minutes=5),
        description="Event time from the newest alert of an incident within which another one is "
        "proposed to be of it.",
    )
    steps: Annotated[int, Field(strict=True, ge=0, le=MAX_STEPS)] = Field(
        default=1,
        description="How many steps of the relation topology (source, target, kind) places may be "
        "apart.",
    )
