"""What comes back of messages: acknowledgements in other systems, and links that act once."""

from moirae.notify.inbound.acknowledgements import (
    ACKNOWLEDGE_ACTION,
    Acknowledgement,
    make_group_token,
    read_pagerduty,
    read_slack,
)
from moirae.notify.inbound.acknowledging import (
    acknowledge_alerts,
    acknowledge_group,
    store_reading,
)
from moirae.notify.inbound.action_links import LABELS as ACTION_LABELS
from moirae.notify.inbound.action_links import PAGE as ACTION_PAGE
from moirae.notify.inbound.action_links import ActionLinks
from moirae.notify.inbound.action_links import hash_code as hash_action_code
from moirae.notify.inbound.listeners import Listeners

__all__ = [
    "ACKNOWLEDGE_ACTION",
    "ACTION_LABELS",
    "ACTION_PAGE",
    "Acknowledgement",
    "ActionLinks",
    "Listeners",
    "acknowledge_alerts",
    "acknowledge_group",
    "hash_action_code",
    "make_group_token",
    "read_pagerduty",
    "read_slack",
    "store_reading",
]
