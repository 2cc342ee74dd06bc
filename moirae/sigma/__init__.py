"""Imports public collections of Sigma rules into rule files, by pySigma (the extra `sigma`).

Its modules are imported by the command that uses them: pySigma may not be installed.
"""

from moirae.sigma.model import SigmaMap
from moirae.sigma.report import ImportReport

__all__ = [
    "ImportReport",
    "SigmaMap",
]
