"""Channels: how a message is rendered for a kind of receiver, and delivered."""

from moirae.notify.channels.factory import ChannelContext, make_sender
from moirae.notify.channels.webhook import encode_webhook, render_webhook

__all__ = ["ChannelContext", "encode_webhook", "make_sender", "render_webhook"]
