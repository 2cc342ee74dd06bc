"""Effects of commands on recalls, in words."""

from typing import Any

import pytest

from moirae.cli.recall_control import _describe_effect
from recall.ledger.commands import Effect


@pytest.mark.parametrize(
    ("verb", "effect", "text"),
    [
        ("cancel", Effect(0, 0, 0.0, 0.0), "no matching recall is open"),
        (
            "cancel",
            Effect(1, 1, 90.0, 0.0),
            "1 recall cancelled, answers discarded; 1 chunk not read (about 1m30s saved)",
        ),
        (
            "finalize",
            Effect(2, 30, None, 0.0, 1),
            "2 recalls finalized, last answers kept (1 had none); 30 chunks not read "
            "(unknown time saved)",
        ),
        (
            "accelerate",
            Effect(1, 3, 20.0, 0.5),
            "1 recall accelerated, tickets times 10: 3 chunks left, finished in less than 1s "
            "(before: about 20s)",
        ),
        (
            "refine",
            Effect(1, 3, None, 4.0),
            "1 recall resumed: 3 chunks left, finished in about 4s (before: unknown time)",
        ),
    ],
)
def test_effect_states_recalls_chunks_and_time(verb: Any, effect: Effect, text: str) -> None:
    assert _describe_effect(verb, effect) == text
