"""Moirae: history-enhanced monitoring."""
