"""What became of fixes, beside the forecasts that name them."""

from collections.abc import Mapping
from typing import Any

import sql
from archiver.clock import utc_now
from moirae.alerts.fixes import CAME_BACK_WITHIN, summarize_fixes
from sql.alerts import TagGateway


class FixRecords:
    """What became of the fixes of rules. Those of a rule are read once."""

    def __init__(self, connection: sql.Connection) -> None:
        self._gateway = TagGateway(connection)
        self._descriptions_by_rule: dict[str, Mapping[str, str]] = {}

    def add_to(self, forecast: Mapping[str, Any], rule: str) -> Mapping[str, Any]:
        """A forecast with `records`: what became of each of its tags, see `FixRecord.describe`."""
        if not forecast.get("tags"):
            return forecast
        descriptions = self.describe(rule)
        tags = [tag for tag, _ in forecast["tags"] if tag in descriptions]
        return {**forecast, "records": {tag: descriptions[tag] for tag in tags}}

    def describe(self, rule: str) -> Mapping[str, str]:
        """What became of each tag of a rule."""
        if rule not in self._descriptions_by_rule:
            tried = self._gateway.list_tried(rule)
            fixes = summarize_fixes(tried, (), CAME_BACK_WITHIN, utc_now())
            self._descriptions_by_rule[rule] = {fix.tag: fix.describe() for fix in fixes}
        return self._descriptions_by_rule[rule]
