"""Estimates for the rows of an intermediate answer. No I/O."""

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa
from sqlglot import exp

from recall.operators.estimate import (
    AnswerEstimate,
    Moments,
    Sample,
    estimate_average,
    estimate_total,
    exact_estimate,
)
from recall.operators.kinds import group_key
from recall.operators.squares import read_sample, square_column
from recall.query.split import Split, SplitAggregate

Row = Mapping[str, Any]


def estimated_outputs(split: Split) -> list[str]:
    """The outputs that have estimates with intervals: counts, sums and averages alone."""
    outputs_by_group, columns_by_output = _grouped_outputs(split)
    if split.top is not None or len(outputs_by_group) < len(split.groups):
        return []
    counted = {a.value_column for a in split.aggregates if square_column(a)}
    return [output for output, column in columns_by_output.items() if column in counted]


def estimate_rows(
    split: Split,
    accumulator: pa.Table | None,
    answer: Sequence[Row],
    requested_seconds: float,
    final: bool,
) -> list[dict[str, Any]]:
    """For each row of an answer: the estimates over the requested range, by output.

    An estimate has the fields of `AnswerEstimate`, and `error` for the error bound of a sketch.
    Only outputs that are one aggregate have estimates, and only if the outputs include all groups,
    so that rows can be told apart; otherwise the list is empty.
    """
    outputs_by_group, columns_by_output = _grouped_outputs(split)
    if split.selects_rows or split.top is not None or len(outputs_by_group) < len(split.groups):
        return []
    key_outputs = [outputs_by_group[group] for group in split.groups]
    merged_rows = _rows_by_group(split, accumulator)
    sample = read_sample(accumulator)
    aggregates_by_column = {a.value_column: a for a in split.aggregates}
    estimates = []
    for row in answer:
        merged_row = merged_rows.get(_row_key(row, key_outputs), {})
        row_estimates = {}
        for output, column in columns_by_output.items():
            aggregate = aggregates_by_column.get(column)
            if aggregate is None:
                continue
            if final:
                estimate = exact_estimate(row[output])
            else:
                estimate = _estimate_value(
                    aggregate, row[output], merged_row, sample, requested_seconds
                )
            row_estimates[output] = dict(vars(estimate))
            if aggregate.error_bound:
                row_estimates[output]["error"] = aggregate.error_bound
        estimates.append(row_estimates)
    return estimates


def _grouped_outputs(split: Split) -> tuple[dict[str, str], dict[str, str]]:
    """The output of each group that is one, and the merged column of each output that is one."""
    columns_by_output = _merged_columns_by_output(split)
    outputs_by_group = {}
    for output, column in columns_by_output.items():
        if column in split.groups:
            outputs_by_group[column] = output
    return outputs_by_group, columns_by_output


def _merged_columns_by_output(split: Split) -> dict[str, str]:
    """The merged column of each output that is one column and not an expression."""
    columns = {}
    for output in split.merge.expressions:
        value = output.unalias()
        if isinstance(value, exp.Column) and not value.table:
            columns[output.alias_or_name] = value.name
    return columns


def _rows_by_group(split: Split, accumulator: pa.Table | None) -> dict[tuple[Any, ...], Row]:
    if accumulator is None or not accumulator.num_columns:
        return {}
    return {_row_key(row, split.groups): row for row in accumulator.to_pylist()}


def _row_key(row: Row, columns: Sequence[str]) -> tuple[Any, ...]:
    return tuple(_comparable_value(row[column]) for column in columns)


def _comparable_value(value: Any) -> Any:
    """Equal for a value of a merged table and for its form in an answer, another number type."""
    if value is None or isinstance(value, bool | str):
        return value
    try:
        number = float(value)
    except (TypeError, ValueError):
        return value
    return group_key(number)


def _estimate_value(
    aggregate: SplitAggregate, value: Any, merged_row: Row, sample: Sample, requested_seconds: float
) -> AnswerEstimate:
    if aggregate.kind in ("min", "bit_and"):
        return AnswerEstimate(value, None, value)
    if aggregate.kind in ("max", "bit_or", "count_distinct"):
        return AnswerEstimate(value, value, None)
    squares = merged_row.get(square_column(aggregate) or "")
    if squares is None:
        return AnswerEstimate(value, None, None)
    parts = [float(merged_row[column] or 0) for column in aggregate.part_columns]
    if aggregate.kind in ("avg", "exact_avg"):
        total, count = parts
        average = estimate_average(Moments(total, count, squares), sample, requested_seconds)
        # The average itself is exact for what was read, also as a decimal.
        return AnswerEstimate(value, average.low, average.high)
    moments = Moments(parts[0], sample.seconds, squares)
    estimate = estimate_total(moments, sample, requested_seconds)
    if aggregate.kind == "count" and estimate.low is not None:
        # There are at least as many rows as were counted.
        return AnswerEstimate(estimate.value, max(estimate.low, value), estimate.high)
    return estimate
