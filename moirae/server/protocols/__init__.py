"""Protocols by which other systems send data: their bodies become rows of streams."""

from moirae.server.protocols.pushed_rows import PushedRows
from moirae.server.protocols.remote_write import SeriesRows

__all__ = ["PushedRows", "SeriesRows"]
