"""History that other systems hold, brought into streams through their landing folders."""

from moirae.imports.prometheus import ImportProgress, ImportTarget, PrometheusImport, find_targets
from moirae.imports.prometheus_api import Credentials, PrometheusApi

__all__ = [
    "ImportProgress",
    "ImportTarget",
    "Credentials",
    "PrometheusApi",
    "PrometheusImport",
    "find_targets",
]
