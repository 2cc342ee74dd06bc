"""Moirae: history-enhanced monitoring."""

__version__ = "0.2.0"
