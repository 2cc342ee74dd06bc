"""Heartbeats of processes, and the notifications between them."""

from sql.processes.processes import ProcessGateway, ProcessRow
from sql.processes.signals import SignalGateway, SignalListener

__all__ = ["ProcessGateway", "ProcessRow", "SignalGateway", "SignalListener"]
