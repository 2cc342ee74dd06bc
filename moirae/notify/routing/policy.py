"""What the workspace file says about notifications, as grouping needs it. No I/O."""

from collections.abc import Sequence

from moirae.config import Matcher, Route, Settings
from moirae.notify.routing.grouping import Policy, ReceiverPolicy
from moirae.notify.routing.tree import build_tree

FAILING_NAME = "ReceiverFailing"
FAILING_SOURCE = "moirae"


def make_policy(settings: Settings) -> Policy:
    """Routes and receivers of a workspace."""
    receivers = {
        name: ReceiverPolicy(receiver.send_resolved, receiver.repeat_acknowledged)
        for name, receiver in settings.receivers.items()
    }
    routes = [make_failing_route(list(receivers)), *settings.routes]
    return Policy(build_tree(routes, settings.time_intervals), receivers)


def make_failing_route(receivers: Sequence[str]) -> Route:
    """The route of the built-in alert about a receiver that fails: to each other receiver."""
    children = [
        {"matchers": [Matcher("receiver", "!=", name)], "receiver": name, "continue": True}
        for name in receivers
    ]
    matchers = [
        Matcher("alertname", "=", FAILING_NAME),
        Matcher("source", "=", FAILING_SOURCE),
    ]
    return Route.model_validate(
        {"matchers": matchers, "group_by": ["receiver"], "group_wait": "0s", "routes": children}
    )
