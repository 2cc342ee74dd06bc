"""The live process: reads sources, archives rows, evaluates rules, follows up alerts."""

from moirae.live.detection import Detector
from moirae.live.relations import Relations
from moirae.live.run import run_live

__all__ = [
    "Detector",
    "Relations",
    "run_live",
]
