"""Notifications: changed alerts become messages of groups, which receivers are sent.

`routing`, `grouping`, `muting`, `intake` and `folding` decide: alerts, silences and the time in,
messages out. `process` acts, in a process of its own.
"""

from moirae.notify.acknowledgements import (
    Acknowledgement,
    read_pagerduty,
    read_slack,
)
from moirae.notify.acknowledging import acknowledge_alerts, acknowledge_group
from moirae.notify.action_links import LABELS as ACTION_LABELS
from moirae.notify.action_links import PAGE as ACTION_PAGE
from moirae.notify.action_links import hash_code as hash_action_code
from moirae.notify.alert import format_labels
from moirae.notify.alert import make_labels as make_alert_labels
from moirae.notify.alert import make_matchers as make_alert_matchers
from moirae.notify.alertmanager_import import convert_alertmanager
from moirae.notify.content import format_time as format_go_time
from moirae.notify.declared import read_declared
from moirae.notify.muting import Silence
from moirae.notify.policy import make_policy
from moirae.notify.present import PresentAlert, list_present_alerts
from moirae.notify.routing import RouteNode, build_tree, find_routes, walk_tree
from moirae.notify.run import run_notify
from moirae.notify.schedule import Recurrence
from moirae.notify.store import list_silences, make_silence
from moirae.notify.trial import preview_message, send_test

__all__ = [
    "ACTION_LABELS",
    "ACTION_PAGE",
    "Acknowledgement",
    "PresentAlert",
    "Recurrence",
    "RouteNode",
    "Silence",
    "acknowledge_alerts",
    "acknowledge_group",
    "build_tree",
    "convert_alertmanager",
    "find_routes",
    "format_go_time",
    "format_labels",
    "hash_action_code",
    "list_present_alerts",
    "list_silences",
    "make_alert_labels",
    "make_alert_matchers",
    "make_policy",
    "make_silence",
    "preview_message",
    "read_declared",
    "read_pagerduty",
    "read_slack",
    "run_notify",
    "send_test",
    "walk_tree",
]
