"""History that other systems hold, brought into streams through their landing folders."""

from moirae.imports.prometheus import ImportProgress, ImportTarget, PrometheusImport, find_targets
from moirae.imports.prometheus_api import Login, PrometheusApi

__all__ = [
    "ImportProgress",
    "ImportTarget",
    "Login",
    "PrometheusApi",
    "PrometheusImport",
    "find_targets",
]
