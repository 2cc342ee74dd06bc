"""Stages (`then`) and conditions (`where`): what follows from the answers about an event.

A runner evaluates them at each revision of the answers, in the recall process, and ends events with
their boundary. `statements` prepares the query of a stage, `evaluation` runs it over the rows of
many events. `event_rows` loads what is known of open events, `event_evaluation` evaluates them,
`store` writes the outcome, and `runner` does all of it in a loop.
"""

from recall.stages.conditions import make_final_answer
from recall.stages.evaluation import StageEvaluator, StageFailure, StageInput
from recall.stages.runner import StageConfig, StageRunner
from recall.stages.state import carry_key, context_tables
from recall.stages.statements import StageQuery, explain_stage_engine, stage_queries

__all__ = [
    "StageConfig",
    "StageEvaluator",
    "StageFailure",
    "StageInput",
    "StageQuery",
    "StageRunner",
    "carry_key",
    "context_tables",
    "explain_stage_engine",
    "make_final_answer",
    "stage_queries",
]
