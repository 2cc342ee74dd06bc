"""Rule files: models, parsing and checks, and the queries of rules about events."""

from moirae.rules.check import check_rules
from moirae.rules.definition import (
    Definition,
    build_event_sql,
    build_rule_tables,
    infer_event_shape,
)
from moirae.rules.model import AlertSpec, RuleFile
from moirae.rules.parse import read_rule_files
from moirae.rules.questions import SimilarRecall, SqlRecall
from moirae.rules.requests import (
    ContextQuery,
    build_context_queries,
    build_questions,
    lift_context_query,
)
from moirae.rules.rule_set import Rule, RuleSet
from moirae.rules.stored_rules import RuleAdmission
from moirae.rules.templates import render
from moirae.rules.unused_keys import find_unused_keys

__all__ = [
    "AlertSpec",
    "ContextQuery",
    "Definition",
    "Rule",
    "RuleAdmission",
    "RuleFile",
    "RuleSet",
    "SimilarRecall",
    "SqlRecall",
    "build_context_queries",
    "build_questions",
    "check_rules",
    "infer_event_shape",
    "build_event_sql",
    "find_unused_keys",
    "lift_context_query",
    "read_rule_files",
    "render",
    "build_rule_tables",
]
