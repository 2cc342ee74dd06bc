"""Rule files: models, parsing and checks, and the queries of rules about events."""

from moirae.rules.check import check_rules
from moirae.rules.definition import (
    Definition,
    build_event_sql,
    build_event_tables,
    build_rule_tables,
    infer_event_shape,
)
from moirae.rules.hybrid_contexts import find_hybrid_contexts
from moirae.rules.model import AlertSpec, RuleFile
from moirae.rules.parse import read_rule_files
from moirae.rules.questions import SimilarRecall, SqlRecall
from moirae.rules.requests import (
    ContextQuery,
    build_context_queries,
    build_event_plan,
    build_questions,
    find_recalls_in_where,
    lift_context_query,
)
from moirae.rules.result_types import ResultTypes, infer_result_types, locate_fragment
from moirae.rules.rule_set import RevisionStream, Rule, RuleSet
from moirae.rules.stored_rules import RuleAdmission
from moirae.rules.templates import render
from moirae.rules.unused_keys import find_unused_keys

__all__ = [
    "AlertSpec",
    "ContextQuery",
    "Definition",
    "ResultTypes",
    "RevisionStream",
    "Rule",
    "RuleAdmission",
    "RuleFile",
    "RuleSet",
    "SimilarRecall",
    "SqlRecall",
    "build_context_queries",
    "build_event_plan",
    "build_questions",
    "check_rules",
    "infer_event_shape",
    "infer_result_types",
    "build_event_sql",
    "build_event_tables",
    "find_hybrid_contexts",
    "find_recalls_in_where",
    "find_unused_keys",
    "lift_context_query",
    "locate_fragment",
    "read_rule_files",
    "render",
    "build_rule_tables",
]
