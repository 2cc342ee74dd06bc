"""Delivery of messages: queues of receivers, retries, HTTP requests to checked hosts."""

from moirae.notify.delivery.hosts import HostPolicy
from moirae.notify.delivery.http_connection import Answer
from moirae.notify.delivery.receiver_queue import (
    Delivery,
    DeliveryResult,
    ReceiverQueue,
    Send,
)
from moirae.notify.delivery.transport import (
    HttpClient,
    connect,
    open_socket,
    watch_deadline,
)

__all__ = [
    "Answer",
    "Delivery",
    "DeliveryResult",
    "HostPolicy",
    "HttpClient",
    "ReceiverQueue",
    "Send",
    "connect",
    "open_socket",
    "watch_deadline",
]
