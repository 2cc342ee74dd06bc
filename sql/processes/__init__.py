"""Heartbeats of processes, and the notifications between them."""

from sql.processes.process_exits import ProcessExitGateway, ProcessExitRow
from sql.processes.processes import DeclarationsRow, ProcessGateway, ProcessRow
from sql.processes.signals import BACKTEST_CHANNEL, SignalGateway, SignalListener

__all__ = [
    "BACKTEST_CHANNEL",
    "DeclarationsRow",
    "ProcessExitGateway",
    "ProcessExitRow",
    "ProcessGateway",
    "ProcessRow",
    "SignalGateway",
    "SignalListener",
]
