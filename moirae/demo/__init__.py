"""A simulated testbed with failures of known cause."""

from moirae.demo.run import run_demo

__all__ = [
    "run_demo",
]
