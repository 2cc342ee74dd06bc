"""What the workspace file says about notifications, as grouping needs it. No I/O."""

from moirae.config import Settings
from moirae.notify.failing_receivers import make_failing_route
from moirae.notify.grouping import Policy, ReceiverPolicy
from moirae.notify.routing import build_tree


def make_policy(settings: Settings) -> Policy:
    """Routes and receivers of a workspace."""
    receivers = {
        name: ReceiverPolicy(receiver.send_resolved, receiver.repeat_acknowledged)
        for name, receiver in settings.receivers.items()
    }
    routes = [make_failing_route(list(receivers)), *settings.routes]
    return Policy(build_tree(routes, settings.time_intervals), receivers)
