"""Notifications: changed alerts become messages of groups, which receivers are sent.

`routing` decides: alerts, silences and the time in, messages out. `messages` adds what history says;
`channels` and `delivery` send, and `inbound` takes what comes back. `process` has them act, in a
process of its own.
"""

from moirae.notify.alertmanager.conversion import convert_alertmanager
from moirae.notify.messages.content import format_time as format_go_time
from moirae.notify.present import PresentAlert, list_present_alerts
from moirae.notify.process.declared import read_declared
from moirae.notify.process.run import run_notify
from moirae.notify.process.store import list_silences, make_silence
from moirae.notify.routing.alert import format_labels
from moirae.notify.routing.alert import make_labels as make_alert_labels
from moirae.notify.routing.alert import make_matchers as make_alert_matchers
from moirae.notify.routing.muting import Silence
from moirae.notify.routing.policy import make_policy
from moirae.notify.routing.schedule import Recurrence
from moirae.notify.trial import preview_message, send_test

__all__ = [
    "PresentAlert",
    "Recurrence",
    "Silence",
    "convert_alertmanager",
    "format_go_time",
    "format_labels",
    "list_present_alerts",
    "list_silences",
    "make_alert_labels",
    "make_alert_matchers",
    "make_policy",
    "make_silence",
    "preview_message",
    "read_declared",
    "run_notify",
    "send_test",
]
