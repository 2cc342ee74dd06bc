"""The entry point of the process of notifications: which object gets which."""

import threading
from datetime import timedelta
from functools import partial

import sql
from archiver.clock import utc_now
from archiver.periodic import Periodic
from moirae.config import Settings
from moirae.notify.channels import ChannelContext, ThreadMemory
from moirae.notify.delivery import HostPolicy
from moirae.notify.inbound import ActionLinks, Listeners, acknowledge_group, store_reading
from moirae.notify.messages.answers import find_history
from moirae.notify.messages.refined import RefinedHistory
from moirae.notify.process.declared import DeclaredSettings
from moirae.notify.process.deliveries import Deliveries
from moirae.notify.process.failing_receivers import FailingReceivers
from moirae.notify.process.heartbeat import HeartbeatMessages
from moirae.notify.process.incoming import Incoming
from moirae.notify.process.loop import NotifyProcess
from moirae.notify.process.outbox import MessageOutbox
from moirae.notify.process.store import NotifyStore
from moirae.notify.routing.grouping import Grouping
from moirae.notify.routing.muting import Muting
from moirae.notify.routing.policy import make_policy
from moirae.runtime import (
    Role,
    Standby,
    check_shared_values,
    connect_database,
    keep_lease,
    machine_name,
    record_failure,
    watch_parent,
)
from sql.notifications import ActionLinkGateway, NotificationGateway, NotifyStateGateway
from sql.workspace import WorkspaceRow

_HEARTBEAT_INTERVAL = 2.0  # seconds
_RELOAD_INTERVAL = 1.0  # seconds between looks at the workspace file
_FAILING_INTERVAL = 5.0  # seconds between looks for receivers that fail
_MESSAGE_INTERVAL = 0.5  # seconds between looks whether a heartbeat is due
_ACKNOWLEDGEMENT_INTERVAL = 0.2  # seconds between looks for acknowledgements of other systems
_REFINED_INTERVAL = 2.0  # seconds between looks for history that has changed
_RETENTION_INTERVAL = 60.0  # seconds between deletions of old messages
_RETENTION_BATCH = 1_000  # messages
_MESSAGE_AGE = timedelta(days=90)
_LOG_AGE = timedelta(days=5)
_ROLE_TIMEOUT = 15.0  # seconds to wait for the predecessor to release the role
_OPTIONS = "-c statement_timeout=60s"


def run_notify(
    settings: Settings,
    stop: threading.Event,
    reload_requested: threading.Event,
    parent_pid: int | None = None,
) -> None:
    """Send notifications until `stop` is set, or until the process `parent_pid` ends.

    `reload_requested`: set to have the workspace file read again.
    """
    watch_parent(parent_pid, stop)
    connection = connect_database(settings, "notify", _OPTIONS)
    check_shared_values(settings, connection)
    role = Role(connection, "notify", _ROLE_TIMEOUT, Standby(machine_name(settings), stop))
    keep_lease(settings, "notify", role.epoch)
    role.heartbeat("starting")
    with record_failure(role):
        declared = DeclaredSettings(settings)
        store = NotifyStore(connection, settings)
        identity = store.load_identity()
        threads = ThreadMemory(NotificationGateway(connection).list_threads())
        context = make_context(settings, identity, threads)
        deliveries = Deliveries(connection, context)
        deliveries.declare(settings.receivers, context)
        grouping = restore_grouping(settings, store)
        incoming = Incoming(store, grouping, settings.notify_within, identity.restored_at)
        links = ActionLinks(connection, settings.receivers)
        outbox = MessageOutbox(
            connection,
            settings.limits.notifications,
            partial(find_history, connection),
            links,
            identity.restored_at,
        )
        failing = FailingReceivers(connection)
        heartbeats = HeartbeatMessages(connection)
        refined = RefinedHistory(connection)
        listeners = Listeners()
        listeners.declare(settings.receivers, context.hosts)
        process: NotifyProcess

        def send_heartbeat() -> None:
            settings = declared.settings
            deliveries.put(heartbeats.make_due(settings.heartbeat, settings.server.public_url))

        requests = store.count_reload_requests()

        def send_refined() -> None:
            receivers = declared.settings.receivers
            contents = refined.make_due(incoming.grouping, receivers, utc_now())
            if contents:
                with connection.transaction():
                    messages = outbox.add_refined(contents)
                deliveries.put(messages)

        def store_acknowledgements() -> None:
            for reported in listeners.take():
                for receiver in reported.receivers:
                    acknowledge_group(connection, receiver, reported.acknowledgement)
                reported.stored.set()
            for reading in listeners.take_readings():
                store_reading(connection, reading)

        def reload() -> None:
            nonlocal requests
            seen, requests = requests, store.count_reload_requests()
            is_forced = reload_requested.is_set() or requests != seen
            reload_requested.clear()
            if not is_forced and not declared.settings.watch_rules:
                return
            problems = declared.reload(is_forced)
            if problems is None:
                return
            store.save_problems(problems)
            if not problems:
                receivers = declared.settings.receivers
                context = make_context(declared.settings, identity, threads)
                deliveries.declare(receivers, context)
                listeners.declare(receivers, context.hosts)
                links.declare(receivers)
                process.take_settings()

        process = NotifyProcess(
            connection,
            declared,
            store,
            incoming,
            outbox,
            deliveries,
            [
                Periodic("heartbeat", _HEARTBEAT_INTERVAL, partial(_beat, role)),
                Periodic("reload", _RELOAD_INTERVAL, reload),
                Periodic(
                    "failing receivers",
                    _FAILING_INTERVAL,
                    lambda: failing.run_once(declared.settings.receivers.keys()),
                ),
                Periodic("heartbeat messages", _MESSAGE_INTERVAL, send_heartbeat),
                Periodic("acknowledgements", _ACKNOWLEDGEMENT_INTERVAL, store_acknowledgements),
                Periodic("refined history", _REFINED_INTERVAL, send_refined),
                Periodic("retention", _RETENTION_INTERVAL, partial(_delete_old, connection)),
            ],
        )
        store.save_problems([])
        process.run(stop)
        listeners.close()
    role.heartbeat("ended")
    connection.close()


def _delete_old(connection: sql.Connection) -> None:
    """Delete messages and what receivers were told of groups that have ended, after their time."""
    NotificationGateway(connection).delete_old(_MESSAGE_AGE, limit=_RETENTION_BATCH)
    NotifyStateGateway(connection).delete_old_log(_LOG_AGE)
    ActionLinkGateway(connection).delete_old(_MESSAGE_AGE, limit=_RETENTION_BATCH)


def _beat(role: Role) -> None:
    role.fence()
    role.heartbeat("running")


def restore_grouping(settings: Settings, store: NotifyStore) -> Grouping:
    """The groups as an earlier process has left them, with the present routes."""
    from moirae.notify.routing.intake import describe_row

    now = utc_now()
    grouping = Grouping(make_policy(settings), Muting(settings.inhibit_rules), now)
    groups, log = store.load_groups()
    members = {alert_id for group in groups for alert_id in group.members}
    alerts = [describe_row(row, now) for row in store.list_alerts(list(members))]
    grouping.restore(groups, log, alerts)
    return grouping


def make_context(
    settings: Settings, identity: WorkspaceRow, threads: ThreadMemory
) -> ChannelContext:
    """What channels need of the workspace."""
    # Numbers of messages begin again where a backup ends: a generation has keys of its own.
    workspace = f"{identity.id}/{identity.generation}"
    return ChannelContext(HostPolicy(settings.allow_hosts), workspace, threads)
