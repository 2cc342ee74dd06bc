"""Example workspaces that `moirae init` creates."""

from moirae.examples.sample_data import sample_rows

__all__ = [
    "sample_rows",
]
