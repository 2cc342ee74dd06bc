"""`moirae receivers`: list receivers, test them, preview their messages."""

from collections.abc import Iterable
from typing import Annotated, Any
from uuid import UUID

import typer

from moirae.cli.options import (
    DEFAULT_WORKSPACE,
    OutputFormat,
    OutputOption,
    WorkspaceOption,
    get_first_line,
    print_json,
    print_table,
    to_seconds,
)
from moirae.cli.pages import make_query
from moirae.cli.remote import open_services, uses_server
from moirae.errors import DeliveryFailed

app = typer.Typer(
    help="List receivers of notifications, test them, and preview their messages.",
    no_args_is_help=True,
)
_COLUMNS = ("receiver", "channel", "last delivery", "waiting", "given up", "failing since", "error")
_MESSAGE_COLUMNS = ("number", "receiver", "cause", "status", "alerts", "state", "at", "error")
ReceiverArgument = Annotated[str, typer.Argument(metavar="NAME", help="Name of the receiver.")]


def list_receivers(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE, output: OutputOption = OutputFormat.TABLE
) -> None:
    """List receivers: last delivery, errors, messages that wait."""
    from moirae.services.operations import notifications

    with open_services(workspace) as services:
        receivers = notifications.list_receivers(services)
    if output is OutputFormat.JSON:
        print_json(receivers)
    else:
        print_table(_COLUMNS, map(_format_receiver, receivers), "no receivers are declared")


def list_messages(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    receiver: Annotated[
        str | None, typer.Option("--receiver", help="Only messages to this receiver.")
    ] = None,
    alert: Annotated[
        UUID | None, typer.Option("--alert", help="Only messages that name this alert.")
    ] = None,
    limit: Annotated[
        int, typer.Option("--limit", min=1, max=1_000, help="Maximum number of messages.")
    ] = 20,
    output: OutputOption = OutputFormat.TABLE,
) -> None:
    """List messages, newest first, and what became of them."""
    from moirae.services.operations.notifications import NotificationQuery, list_notifications

    query = make_query(NotificationQuery, receiver=receiver, alert=alert, limit=limit)
    with open_services(workspace) as services:
        notifications = list_notifications(services, query)
    if output is OutputFormat.JSON:
        print_json(notifications)
    else:
        print_table(_MESSAGE_COLUMNS, map(_format_message, notifications), "no messages")


def send_test_message(
    receiver: ReceiverArgument,
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
) -> None:
    """Deliver a test message to a receiver now. Exit code 1 if it is not taken.

    It is recorded if the database of the workspace runs.
    """
    from moirae.config import load_settings_from_environment
    from moirae.notify import send_test
    from moirae.runtime import is_database_running
    from moirae.services.operations import notifications

    settings = None if uses_server() else load_settings_from_environment(workspace)
    if settings is not None and not is_database_running(settings):
        send_test(settings, receiver)
    else:
        with open_services(workspace) as services:
            error = notifications.test_receiver(services, receiver).error
        if error is not None:
            raise DeliveryFailed(error)
    print(f"delivered: receiver {receiver} has taken a test message")


def preview_message(
    receiver: ReceiverArgument,
    alert: Annotated[
        str, typer.Argument(metavar="ALERT", help="Alert, or a unique prefix of its ID.")
    ],
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    resolved: Annotated[
        bool, typer.Option("--resolved", help="Show the message about the end of the alert.")
    ] = False,
) -> None:
    """Show the message that a receiver would get about an alert that fires. Nothing is sent."""
    from moirae.services.operations.notifications import PreviewQuery, preview_receiver

    query = make_query(PreviewQuery, alert=alert, resolved=resolved)
    with open_services(workspace) as services:
        print(preview_receiver(services, receiver, query).message)


def revoke_links(
    workspace: WorkspaceOption = DEFAULT_WORKSPACE,
    receiver: Annotated[
        str | None, typer.Option("--receiver", help="Only links of messages to this receiver.")
    ] = None,
    alert: Annotated[
        str | None, typer.Option("--alert", help="Only links about this alert.")
    ] = None,
) -> None:
    """Revoke the links of messages that acknowledge or silence an alert; by default all."""
    from moirae.services.operations.notifications import LinkSelection
    from moirae.services.operations.notifications import revoke_links as revoke

    selection = make_query(LinkSelection, receiver=receiver, alert=alert)
    with open_services(workspace) as services:
        revoked = revoke(services, selection).revoked
    print(f"revoked: {revoked} links")


def _format_receiver(receiver: Any) -> Iterable[Any]:
    error = receiver.error
    if error is None and receiver.unread_since is not None:
        error = f"acknowledgements cannot be read: {receiver.unread_error}"
    if error is None and receiver.test_error is not None:
        error = f"test message not taken: {receiver.test_error}"
    return [
        receiver.receiver,
        receiver.channel,
        to_seconds(receiver.delivered_at),
        receiver.pending,
        receiver.failed,
        to_seconds(receiver.failing_since or receiver.unread_since),
        get_first_line(error),
    ]


def _format_message(message: Any) -> Iterable[Any]:
    state = message.state
    if message.summary is not None:
        state = f"in summary {message.summary}"
    return [
        message.id,
        message.receiver,
        message.cause,
        message.status,
        message.alert_count,
        state,
        to_seconds(message.ended_at or message.created_at),
        get_first_line(message.error),
    ]
