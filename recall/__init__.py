"""Recalls: queries over the history of streams, answered chunk by chunk."""
