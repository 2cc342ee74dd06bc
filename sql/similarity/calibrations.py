"""Calibrations of similarity recalls."""

from collections.abc import Mapping
from typing import Any

from psycopg.types.json import Jsonb

from sql.gateway import Gateway


class CalibrationGateway(Gateway):
    """Calibrations, identified by rule, version and recall; see `recall.similarity.Calibration`."""

    queries = "calibrations"

    def put(self, rule: str, version: str, recall: str, model: Mapping[str, Any]) -> None:
        """Store a calibration; it replaces an earlier one."""
        values = {"rule": rule, "version": version, "recall": recall}
        self._execute("put", **values, model=Jsonb(model))

    def delete(self, rule: str, version: str, recall: str) -> None:
        """Delete a calibration, if there is one."""
        self._execute("delete", rule=rule, version=version, recall=recall)

    def get_model(self, rule: str, version: str, recall: str) -> Mapping[str, Any] | None:
        """A calibration; None if there is none."""
        model: Mapping[str, Any] | None = self._value(
            "get_model", rule=rule, version=version, recall=recall
        )
        return model
