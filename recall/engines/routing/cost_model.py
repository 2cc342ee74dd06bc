"""A cost model of each query and engine, learned from measured times. No I/O.

seconds = fixed + per_megabyte × megabytes of files, fitted by recursive least squares with
exponential forgetting (Ljung, System Identification, 2nd ed. 1999, section 11.2). The initial guess
counts as one measurement.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from recall.engines.lru_cache import DEFAULT_MAX_ENTRIES, LruCache

# Initial guess by engine: seconds, and seconds per megabyte.
INITIAL_COSTS: Mapping[str, tuple[float, float]] = {"local": (0.01, 0.01), "spark": (0.25, 0.008)}
SPARK_START_SECONDS = 10.0
# Weight of earlier measurements at each new one: about the last twenty count.
_FORGETTING_FACTOR = 0.95
# Bound of the variances: without measurements they would grow for ever.
_MAX_VARIANCE = 10.0


@dataclass
class CostModel:
    """Linear model of seconds by megabytes.

    `covariance`: of both coefficients, as the entries (0,0), (0,1), (1,1) of a symmetric matrix.
    """

    fixed_seconds: float
    seconds_per_megabyte: float
    covariance: tuple[float, float, float] = (1.0, 0.0, 1.0)

    def predict_seconds(self, megabytes: float) -> float:
        """The expected time, at least 0."""
        return max(self.fixed_seconds + self.seconds_per_megabyte * megabytes, 0.0)

    def update(self, megabytes: float, seconds: float) -> None:
        """Fit the model to one more measurement."""
        c00, c01, c11 = self.covariance
        gain0 = c00 + c01 * megabytes
        gain1 = c01 + c11 * megabytes
        scale = _FORGETTING_FACTOR + gain0 + gain1 * megabytes
        error = seconds - self.fixed_seconds - self.seconds_per_megabyte * megabytes
        self.fixed_seconds += gain0 / scale * error
        self.seconds_per_megabyte += gain1 / scale * error
        self.covariance = (
            min((c00 - gain0 * gain0 / scale) / _FORGETTING_FACTOR, _MAX_VARIANCE),
            (c01 - gain0 * gain1 / scale) / _FORGETTING_FACTOR,
            min((c11 - gain1 * gain1 / scale) / _FORGETTING_FACTOR, _MAX_VARIANCE),
        )


def _create_model_cache() -> LruCache[tuple[str, str], CostModel]:
    return LruCache(2 * DEFAULT_MAX_ENTRIES)  # two engines


@dataclass
class EngineCosts:
    """The cost models of the queries used last, by query and engine."""

    _models: LruCache[tuple[str, str], CostModel] = field(default_factory=_create_model_cache)
    _excluded: LruCache[str, bool] = field(default_factory=LruCache)

    def model_for(self, query_key: str, engine: str) -> CostModel:
        """The model of a query on an engine."""
        return self._models.get_or_create(
            (query_key, engine), lambda: CostModel(*INITIAL_COSTS[engine])
        )

    def exclude_from_shared_scans(self, query_key: str) -> None:
        """Run a query that failed in a shared scan separately from now on."""
        self._excluded.get_or_create(query_key, lambda: True)

    def is_excluded(self, query_key: str) -> bool:
        """Whether a query is excluded from shared scans."""
        return query_key in self._excluded

    def cheaper_engine(self, query_key: str, megabytes: float, spark_running: bool) -> str:
        """The engine with the lower expected time: `local` or `spark`."""
        local_seconds = self.model_for(query_key, "local").predict_seconds(megabytes)
        spark_seconds = self.model_for(query_key, "spark").predict_seconds(megabytes)
        if not spark_running:
            spark_seconds += SPARK_START_SECONDS
        return "local" if local_seconds <= spark_seconds else "spark"
