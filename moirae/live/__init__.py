"""Judging what arrives: sources in, archive, rules, events out."""
