"""Series in the format that a scraper asks for: OpenMetrics, or Prometheus's text format."""

from collections.abc import Iterable, Iterator

from fastapi import Request
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import Metric
from starlette.responses import Response


def expose(request: Request, families: Iterable[Metric]) -> Response:
    """The answer to a request for series."""
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    registry = CollectorRegistry()
    registry.register(_Collected(list(families)))
    return Response(encode(registry), headers={"Content-Type": content_type})


class _Collected:
    """Metrics that are already collected, as a collector of a registry."""

    def __init__(self, families: list[Metric]) -> None:
        self._families = families

    def collect(self) -> Iterator[Metric]:
        return iter(self._families)
