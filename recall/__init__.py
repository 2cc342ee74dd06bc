"""Asking the past."""
