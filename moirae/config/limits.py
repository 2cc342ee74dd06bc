"""Limits of rules, stages and notifications."""

from __future__ import annotations

from datetime import timedelta
from typing import Annotated

from pydantic import Field

from moirae.config.durations import PositiveDuration
from moirae.documents.types import ConfigModel, PositiveInt


class LostLimits(ConfigModel):
    """Verdicts that a rule may lose; above both numbers it is quarantined."""

    share: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.01,
        description="Share of the candidate rows of the last ten minutes, from 0 to 1.",
    )
    rows: PositiveInt = Field(
        default=20,
        description="Rows lost in the last ten minutes, so that some crafted rows do not switch a "
        "rule off.",
    )


class Limits(ConfigModel):
    """Limits of one rule in the live process, and of the stages of its events.

    A rule or stage that exceeds one fails.
    """

    statement: PositiveDuration = Field(
        default=timedelta(seconds=20),
        description="CPU time of Spark for evaluating a micro-batch; extended for many rows or "
        "rules. A row for which a rule exceeds it alone is lost to the rule.",
    )
    matches: PositiveInt = Field(
        default=10_000,
        description="Maximum number of events of one rule in one evaluation, per minute of event "
        "time; the "
        "limit of a rule or group takes precedence.",
    )
    failures: PositiveInt = Field(
        default=3, description="Consecutive failures after which a rule is quarantined."
    )
    lost: LostLimits = Field(
        default=LostLimits(),
        description="Rows for which a rule may exceed its limits. It has no verdict over them.",
    )
    stage_rows: PositiveInt = Field(
        default=100_000,
        description="Maximum number of rows that a stage (`then`) reads, or returns, for one event.",
    )
    notifications: PositiveInt = Field(
        default=60,
        description="Messages per minute and receiver beyond which messages are folded into "
        "summaries.",
    )
    external_rules: int = Field(
        default=1_000,
        ge=0,
        description="Names of alerts posted by other systems that get a rule of their own; alerts of "
        "further names belong to the rule external/other.",
    )
