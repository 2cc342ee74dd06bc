"""The live process: reads sources, archives rows, evaluates rules, follows up alerts."""

from moirae.live.composition import build_detection
from moirae.live.outbox import open_outbox, open_outboxes
from moirae.live.relations import Relations
from moirae.live.run import run_live

__all__ = [
    "Relations",
    "build_detection",
    "open_outbox",
    "open_outboxes",
    "run_live",
]
