"""Decode many lines at once with Arrow's readers, with the results of the line decoder."""

from archiver.ingest.columnar.decoder import decode_blocks

__all__ = ["decode_blocks"]
