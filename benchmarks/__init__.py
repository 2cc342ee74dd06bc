"""Benchmarks of the project's performance goals, with a measure of how noisy the machine was."""
