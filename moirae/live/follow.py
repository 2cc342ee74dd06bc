"""What follows an alert, after it has been told: its context and its recalls."""

import time
from collections.abc import Mapping, Sequence
from typing import Any

from psycopg import Connection

from moirae.judging.plan import Running
from moirae.live.contexts import Contexts
from moirae.live.requests import Requests

# Seconds: between two settlings of contexts; how far back alerts are looked at again, whatever clocks do.
_SETTLE_EVERY, _AGAIN = 1.0, 60.0

# Each round takes hundreds of events further; what is not done then goes on with the next start.
_ROUNDS = 10_000

_MOMENT = "SELECT clock_timestamp() - make_interval(secs => %s)"
_CHANGED = "SELECT max(updated_at) FROM alerts WHERE rule = ANY(%s)"


class Follow:
    """Looks after the questions of running rules, on the live process's connection."""

    def __init__(self, connection: Connection[Any], contexts: Contexts) -> None:
        self._connection = connection
        self._contexts = contexts
        self._requests = Requests(connection)
        self._since: Any = None
        self._seen: Any = None
        self._settled_at = 0.0

    def up(self, running: Sequence[Running], watermarks: Mapping[str, int | None], newest: int | None) -> None:
        """Whatever is due. `newest`: the newest event time of the archive, in microseconds."""
        asking = [rule for rule in running if rule.definition.asks]
        if not asking:
            return
        self._begin(asking, watermarks, newest)
        if time.monotonic() - self._settled_at >= _SETTLE_EVERY:
            self.settle(asking, watermarks)

    def settle(self, running: Sequence[Running], watermarks: Mapping[str, int | None]) -> bool:
        """Contexts that can be settled; returns whether there were any."""
        self._settled_at = time.monotonic()
        return self._contexts.settle([rule for rule in running if rule.definition.asks], watermarks)

    def to_end(self, running: Sequence[Running], watermarks: Mapping[str, int | None], newest: int | None) -> None:
        """Everything, at the end of time."""
        asking = [rule for rule in running if rule.definition.asks]
        if asking:
            for _ in range(_ROUNDS):
                more = self._begin(asking, watermarks, newest)
                if not self.settle(asking, watermarks) and not more:
                    break

    def _begin(self, asking: Sequence[Running], watermarks: Mapping[str, int | None], newest: int | None) -> bool:
        """Contexts and recalls of alerts that have changed; returns whether there may be more."""
        changed = self._connection.execute(_CHANGED, ([rule.rule for rule in asking],)).fetchone()
        if changed is None or changed[0] is None or changed[0] == self._seen:
            return False
        moment = self._connection.execute(_MOMENT, (_AGAIN,)).fetchone()
        assert moment is not None
        more = self._requests.add(asking, self._since, newest, with_context=False)
        more = self._contexts.begin(asking, watermarks, self._since) or more
        more = self._requests.add(asking, self._since, newest, with_context=True) or more
        if not more:
            self._since, self._seen = moment[0], changed[0]
        return more
