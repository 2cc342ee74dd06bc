"""How long an engine takes for a piece of history: a small model of each question and engine,
learned as it is asked.

Seconds = fixed + each × megabytes of files, fitted by recursive least squares with forgetting
(Ljung, System Identification, 2nd ed. 1999, section 11.2) from a guess that counts as one
measurement. Pure.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recall.engines.lately import DEFAULT_MAX_ENTRIES, LruCache

# What is expected before anything was measured: seconds, and seconds for a megabyte.
INITIAL_COSTS: Mapping[str, tuple[float, float]] = {"local": (0.01, 0.01), "spark": (0.25, 0.008)}
# Seconds until Spark can be asked, where it does not run yet.
SPARK_START_SECONDS = 10.0
# Weight of what is known at each new measurement: the last twenty or so count.
_FORGETTING_FACTOR = 0.95


@dataclass
class CostModel:
    """Seconds by megabytes; `spread`: how little is known of both coefficients (a symmetric
    matrix).
    """

    fixed_seconds: float
    seconds_per_megabyte: float
    covariance: tuple[float, float, float] = (1.0, 0.0, 1.0)

    def predict_seconds(self, megabytes: float) -> float:
        """What is expected."""
        return max(self.fixed_seconds + self.seconds_per_megabyte * megabytes, 0.0)

    def update(self, megabytes: float, seconds: float) -> None:
        """Take in a measurement."""
        a, b, c = self.covariance
        gain0, gain1 = a + b * megabytes, b + c * megabytes
        whole = _FORGETTING_FACTOR + gain0 + gain1 * megabytes
        error = seconds - self.fixed_seconds - self.seconds_per_megabyte * megabytes
        self.fixed_seconds += gain0 / whole * error
        self.seconds_per_megabyte += gain1 / whole * error
        # What is not seen any more is not forgotten for ever either.
        self.covariance = (
            min((a - gain0 * gain0 / whole) / _FORGETTING_FACTOR, 10.0),
            (b - gain0 * gain1 / whole) / _FORGETTING_FACTOR,
            min((c - gain1 * gain1 / whole) / _FORGETTING_FACTOR, 10.0),
        )


@dataclass
class EngineCosts:
    """Models of the questions asked last, by question and engine."""

    _models: LruCache[tuple[str, str], CostModel] = field(
        default_factory=lambda: LruCache(2 * DEFAULT_MAX_ENTRIES)
    )
    _excluded: LruCache[str, bool] = field(default_factory=LruCache)

    def model_for(self, query_key: str, engine: str) -> CostModel:
        """The model of a question asked of an engine."""
        return self._models.get_or_create(
            (query_key, engine), lambda: CostModel(*INITIAL_COSTS[engine])
        )

    def exclude_from_shared_scans(self, query_key: str) -> None:
        """A question has failed here: those that would be read together with it would pay for it
        each time.
        """
        self._excluded.get_or_create(query_key, lambda: True)

    def is_excluded(self, query_key: str) -> bool:
        """Whether a question was set apart."""
        return query_key in self._excluded

    def cheaper_engine(self, query_key: str, megabytes: float, spark_running: bool) -> str:
        """Which engine is expected to answer sooner."""
        spark = self.model_for(query_key, "spark").predict_seconds(megabytes) + (
            0.0 if spark_running else SPARK_START_SECONDS
        )
        return (
            "local"
            if self.model_for(query_key, "local").predict_seconds(megabytes) <= spark
            else "spark"
        )
