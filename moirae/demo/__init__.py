"""A simulated testbed with failures of known cause."""

from moirae.demo.run import DemoHost, run_demo

__all__ = [
    "DemoHost",
    "run_demo",
]
