"""Channels: how a message is rendered for a kind of receiver, and delivered."""

from moirae.notify.channels.email import make_mail
from moirae.notify.channels.factory import ChannelContext, make_sender
from moirae.notify.channels.pagerduty import render_pagerduty
from moirae.notify.channels.rendering import render_body, render_title
from moirae.notify.channels.slack import render_slack
from moirae.notify.channels.threads import ThreadMemory
from moirae.notify.channels.webhook import encode_webhook, render_webhook

__all__ = [
    "ChannelContext",
    "ThreadMemory",
    "encode_webhook",
    "make_mail",
    "make_sender",
    "render_body",
    "render_pagerduty",
    "render_slack",
    "render_title",
    "render_webhook",
]
