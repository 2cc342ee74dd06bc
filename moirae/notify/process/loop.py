"""The loop of notifications: changed alerts → groups → outbox → receivers."""

import threading
from collections.abc import Sequence

import sql
from archiver.clock import utc_now
from archiver.periodic import Periodic, Schedule
from moirae.notify.process.declared import DeclaredSettings
from moirae.notify.process.deliveries import Deliveries
from moirae.notify.process.incoming import Incoming
from moirae.notify.process.outbox import MessageOutbox
from moirae.notify.process.store import NotifyStore
from moirae.notify.routing.alert import NotifiedAlert
from moirae.notify.routing.policy import make_policy
from moirae.notify.routing.tree import find_routes

_TICK_INTERVAL = 0.05  # seconds between looks at the log of changes
_STORM_INTERVAL = (
    0.5  # the same while messages are folded: fewer transactions beside the live process
)
_RELEASE_INTERVAL = 0.05  # seconds between looks at messages that wait
_SILENCE_INTERVAL = 0.5  # seconds between looks for changed silences while no message is due
_SUMMARY_INTERVAL = 1.0  # seconds between looks at folded messages
_CLOSE_TIMEOUT = 8.0  # seconds for messages that are being sent at a stop
_PENDING_BATCH = 2_000  # messages of an earlier process that are queued at once


class NotifyProcess:
    """One run of the process of notifications; built by `moirae.notify.process.run`."""

    def __init__(
        self,
        connection: sql.Connection,
        declared: DeclaredSettings,
        store: NotifyStore,
        incoming: Incoming,
        outbox: MessageOutbox,
        deliveries: Deliveries,
        periodics: Sequence[Periodic],
    ) -> None:
        self._connection = connection
        self._declared = declared
        self._store = store
        self._incoming = incoming
        self._outbox = outbox
        self._deliveries = deliveries
        self._schedule = Schedule(
            [
                Periodic("release", _RELEASE_INTERVAL, self._release),
                Periodic("silences", _SILENCE_INTERVAL, self._load_silences),
                *periodics,
            ]
        )
        self._summaries = Periodic("summaries", _SUMMARY_INTERVAL, self._add_summaries)

    def run(self, stop: threading.Event) -> None:
        """Send messages until a stop is requested."""
        self._load_silences()
        self._incoming.restore(utc_now())
        self._queue_pending()
        while not stop.is_set():
            self._schedule.run_due()
            self._incoming.follow(utc_now())
            folded = self._flush()
            self._summaries.run_if_due()
            self._store_results()
            stop.wait(_STORM_INTERVAL if folded else _TICK_INTERVAL)
        self._close()

    def take_settings(self) -> None:
        """Continue with the settings that are in force now."""
        settings = self._declared.settings
        grouping = self._incoming.grouping
        grouping.muting.replace_rules(settings.inhibit_rules)
        grouping.replace_policy(make_policy(settings), utc_now())
        self._incoming.notify_within = settings.notify_within
        self._outbox.set_limit(settings.limits.notifications)

    def _flush(self) -> int:
        """Store the messages that are due with the state that they follow from; then send them.

        Returns how many are not sent, but counted in a summary.
        """
        now = utc_now()
        due_at = self._incoming.grouping.next_due()
        if due_at is not None and due_at <= now:
            self._load_silences()  # one that was added just before holds back what is sent now
        messages = self._incoming.flush_due(now)
        unsent = self._incoming.take_unsent(now)
        if not messages and not unsent and not self._incoming.has_changes:
            return 0
        public_url = self._declared.settings.server.public_url
        with self._connection.transaction():
            deliveries = self._outbox.add(messages, public_url) if messages else []
            if unsent:
                self._outbox.add_unsent(self._group_by_receiver(unsent), public_url)
            self._incoming.save()
        self._deliveries.put(deliveries)
        return len(messages) - len(deliveries)

    def _group_by_receiver(self, alerts: Sequence[NotifiedAlert]) -> dict[str, list[NotifiedAlert]]:
        """Alerts by the receivers of their routes."""
        root = self._incoming.grouping.policy.root
        groups: dict[str, list[NotifiedAlert]] = {}
        for alert in alerts:
            for receiver in {node.options.receiver for node in find_routes(root, alert.labels)}:
                groups.setdefault(receiver, []).append(alert)
        return groups

    def _release(self) -> None:
        if self._incoming.has_held:
            self._incoming.release(utc_now())

    def _load_silences(self) -> None:
        silences = self._store.load_changed_silences(utc_now())
        if silences is not None:
            self._incoming.grouping.muting.silences = silences

    def _add_summaries(self) -> None:
        if not self._outbox.has_folded:
            return
        settings = self._declared.settings
        with self._connection.transaction():
            deliveries = self._outbox.add_summaries(
                list(settings.receivers), settings.server.public_url
            )
        self._deliveries.put(deliveries)

    def _store_results(self) -> None:
        results = self._deliveries.take_results()
        if results:
            with self._connection.transaction():
                self._deliveries.store(results)

    def _queue_pending(self) -> None:
        """Queue what an earlier process has not delivered."""
        after = 0
        while True:
            deliveries = self._outbox.list_pending(after, _PENDING_BATCH)
            if not deliveries:
                return
            self._deliveries.put(deliveries)
            assert deliveries[-1].id is not None
            after = deliveries[-1].id

    def _close(self) -> None:
        """Store what was delivered: an orderly stop has no message sent twice."""
        self._deliveries.close(_CLOSE_TIMEOUT)
        self._store_results()
