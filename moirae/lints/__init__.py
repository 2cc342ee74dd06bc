"""Lints of rules (`moirae rules check`): what is valid and probably not meant, or costs too much."""

from moirae.lints.lints import find_lints

__all__ = ["find_lints"]
