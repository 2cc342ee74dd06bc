"""Benchmarks: goals as measured here and now, beside what shows how noisy the machine is."""
