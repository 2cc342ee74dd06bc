"""Erases rows on request, with all that follows from them, wherever the workspace has it."""

from moirae.erasure.choice import ErasureChoice
from moirae.erasure.run import Eraser
from moirae.erasure.selection import ErasureCondition

__all__ = ["ErasureChoice", "ErasureCondition", "Eraser"]
