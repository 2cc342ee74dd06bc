"""Converts a collection into rules of a stream. What cannot be converted is reported. No I/O."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pydantic import ValidationError
from sigma.collection import SigmaCollection
from sigma.correlations import SigmaCorrelationRule
from sigma.exceptions import SigmaError
from sigma.filters import SigmaFilter
from sigma.rule import SigmaRule

from moirae.errors import NotImported
from moirae.rules import AlertSpec
from moirae.sigma.collection import Collection, SigmaDocument
from moirae.sigma.correlations import CorrelationWriter
from moirae.sigma.metadata import make_annotations, make_labels
from moirae.sigma.queries import QueryWriter, check_status
from moirae.sigma.report import LeftOut
from moirae.sigma.yaml_text import RuleValues


class GeneratedRule(NamedTuple):
    """A converted rule. `topic`: names its file; `values`: its keys without `alert`."""

    sigma_id: str
    title: str
    topic: str
    source: str
    values: RuleValues


@dataclass
class GeneratedRules:
    """All rules of a collection. `correlated`: titles of rules that only correlations use."""

    rules: list[GeneratedRule] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)
    correlated: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


class RuleGenerator:
    """Converts collections for one stream."""

    def __init__(self, queries: QueryWriter, key: Sequence[str]) -> None:
        """`key`: of rules that are not correlations."""
        self._queries = queries
        self._correlations = CorrelationWriter(queries)
        self._key = list(key)

    def generate(self, collection: Collection) -> GeneratedRules:
        """The rules of a collection, which is changed: its filters are applied."""
        result = GeneratedRules(left_out=list(collection.left_out))
        _apply_filters(collection, result)
        unresolved = _resolve_correlations(collection)
        for document in collection.documents:
            if isinstance(document.content, SigmaFilter):
                continue
            try:
                if document.id in unresolved:
                    raise NotImported("correlation", unresolved[document.id])
                check_status(document.content)
                if not document.content._output:
                    result.correlated.append(document.content.title)
                    continue
                result.rules.append(self._convert(document))
            except NotImported as error:
                result.left_out.append(LeftOut(document.location, error.kind, str(error)))
        return result

    def _convert(self, document: SigmaDocument) -> GeneratedRule:
        content = document.content
        if isinstance(content, SigmaCorrelationRule):
            query = self._correlations.write(content)
            values: RuleValues = {"expr": query.sql, "key": list(query.groups)}
            topic = "correlations"
        else:
            assert isinstance(content, SigmaRule)
            sql = self._queries.write_filter(content)
            values = {"expr": sql, "key": self._key, "id": list(self._queries.id_columns)}
            source = content.logsource
            names = (source.product, source.category, source.service)
            topic = "_".join(name for name in names if name) or "rules"
        sigma_map = self._queries.layout.map
        values["labels"] = make_labels(content, document.id, document.tags, sigma_map)
        values["annotations"] = make_annotations(content, sigma_map)
        _validate(values)
        return GeneratedRule(document.id, content.title, topic, document.name, values)


def _validate(values: RuleValues) -> None:
    try:
        AlertSpec.model_validate({"alert": "name", **values})
    except ValidationError as error:
        details = error.errors(include_url=False)[0]
        key = ".".join(map(str, details["loc"]))
        raise NotImported("invalid", f"not valid as a rule: {key}: {details['msg']}") from error


def _apply_filters(collection: Collection, result: GeneratedRules) -> None:
    for document in collection.documents:
        sigma_filter = document.content
        if not isinstance(sigma_filter, SigmaFilter):
            continue
        count = 0
        try:
            for other in collection.documents:
                rule = other.content
                if isinstance(rule, SigmaRule) and sigma_filter._should_apply_on_rule(rule):
                    sigma_filter.apply_on_rule(rule)
                    count += 1
        except SigmaError as error:
            reason = f"the filter cannot be applied: {' '.join(str(error).split())}"
            result.left_out.append(LeftOut(document.location, "filter", reason))
            continue
        if not count:
            result.warnings.append(
                f"{document.location}: the filter is for no rule of the collection"
            )


def _resolve_correlations(collection: Collection) -> dict[str, str]:
    """Link correlations to their rules. Returns why that is not possible, by ID.

    The rules of a correlation that is left out do not become rules of their own by that.
    """
    contents: list[SigmaRule | SigmaCorrelationRule | SigmaFilter] = [
        document.content
        for document in collection.documents
        if isinstance(document.content, SigmaRule | SigmaCorrelationRule)
    ]
    resolved_rules = SigmaCollection(contents, resolve_references=False)
    failures: dict[str, str] = {}
    for document in collection.documents:
        correlation = document.content
        if not isinstance(correlation, SigmaCorrelationRule):
            continue
        try:
            correlation.resolve_rule_references(resolved_rules)
        except SigmaError as error:
            failures[document.id] = " ".join(str(error).split())
            if not correlation.generate:
                collection.correlated |= {rule.reference for rule in correlation.rules or ()}
            continue
        if not all(isinstance(part.rule, SigmaRule) for part in correlation.referenced_rules):
            failures[document.id] = "it correlates another correlation"
    for document in collection.documents:
        names = {document.id, document.content.name}
        if isinstance(document.content, SigmaRule) and names & collection.correlated:
            document.content.disable_output()
    return failures
