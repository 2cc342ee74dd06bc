"""How long an engine takes for a piece of history: a small model of each question and engine, learned as it is asked.

Seconds = fixed + each × megabytes of files, fitted by recursive least squares with forgetting (Ljung, System
Identification, 2nd ed. 1999, section 11.2) from a guess that counts as one measurement. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recall.lately import QUESTIONS, Lately

# What is expected before anything was measured: seconds, and seconds for a megabyte.
FIRST: Mapping[str, tuple[float, float]] = {"local": (0.01, 0.01), "spark": (0.25, 0.008)}
# Seconds until Spark can be asked, where it does not run yet.
START = 10.0
# Weight of what is known at each new measurement: the last twenty or so count.
_KEEP = 0.95


@dataclass
class Model:
    """Seconds by megabytes; `spread`: how little is known of both coefficients (a symmetric matrix)."""

    fixed: float
    each: float
    spread: tuple[float, float, float] = (1.0, 0.0, 1.0)

    def seconds(self, megabytes: float) -> float:
        """What is expected."""
        return max(self.fixed + self.each * megabytes, 0.0)

    def learn(self, megabytes: float, seconds: float) -> None:
        """Take in a measurement."""
        a, b, c = self.spread
        gain0, gain1 = a + b * megabytes, b + c * megabytes
        whole = _KEEP + gain0 + gain1 * megabytes
        error = seconds - self.fixed - self.each * megabytes
        self.fixed += gain0 / whole * error
        self.each += gain1 / whole * error
        # What is not seen any more is not forgotten for ever either.
        self.spread = (
            min((a - gain0 * gain0 / whole) / _KEEP, 10.0),
            (b - gain0 * gain1 / whole) / _KEEP,
            min((c - gain1 * gain1 / whole) / _KEEP, 10.0),
        )


@dataclass
class Costs:
    """Models of the questions asked last, by question and engine."""

    _models: Lately[tuple[str, str], Model] = field(default_factory=lambda: Lately(2 * QUESTIONS))
    _apart: Lately[str, bool] = field(default_factory=Lately)

    def of(self, question: str, engine: str) -> Model:
        """The model of a question asked of an engine."""
        return self._models.of((question, engine), lambda: Model(*FIRST[engine]))

    def set_apart(self, question: str) -> None:
        """A question has failed here: those that would be read together with it would pay for it each time."""
        self._apart.of(question, lambda: True)

    def alone(self, question: str) -> bool:
        """Whether a question was set apart."""
        return question in self._apart

    def cheaper(self, question: str, megabytes: float, spark_runs: bool) -> str:
        """Which engine is expected to answer sooner."""
        spark = self.of(question, "spark").seconds(megabytes) + (0.0 if spark_runs else START)
        return "local" if self.of(question, "local").seconds(megabytes) <= spark else "spark"
