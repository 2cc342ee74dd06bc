"""Requests that Schemathesis makes from an OpenAPI document, sent to a running server."""

from collections.abc import Callable, Sequence
from typing import Any

import hypothesis
import schemathesis

from tests.served import Served


def find_failures(
    schema: schemathesis.BaseSchema,
    served: Served,
    checks: Sequence[Callable[..., Any]],
    *,
    role: str,
    max_examples: int,
    min_routes: int,
    mode: schemathesis.GenerationMode = schemathesis.GenerationMode.POSITIVE,
) -> dict[str, BaseException]:
    """What was wrong with the answers of each route. `max_examples`: requests to a route."""
    operations = [result.ok() for result in schema.get_all_operations()]
    assert len(operations) >= min_routes
    headers = {"Authorization": f"Bearer {served.tokens[role]}"}
    failures: dict[str, BaseException] = {}
    for operation in operations:

        @hypothesis.given(case=operation.as_strategy(generation_mode=mode))
        @hypothesis.settings(
            max_examples=max_examples,
            deadline=None,
            database=None,
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        def answers_as_described(case: schemathesis.Case) -> None:
            case.call_and_validate(base_url=served.url, headers=headers, checks=checks, timeout=180)

        try:
            answers_as_described()
        except BaseExceptionGroup as group:
            failures[operation.label] = group.exceptions[0]
        except Exception as error:
            failures[operation.label] = error
    return failures
