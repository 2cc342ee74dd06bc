"""Protocols by which other systems send data: their bodies become rows of streams."""
