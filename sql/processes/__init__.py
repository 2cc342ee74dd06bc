"""Heartbeats of processes, and the notifications between them."""

from sql.processes.process_exits import ProcessExitGateway, ProcessExitRow
from sql.processes.processes import (
    DeclarationsRow,
    HolderRow,
    ProcessGateway,
    ProcessRow,
    WaitingRow,
)
from sql.processes.signals import BACKTEST_CHANNEL, SignalGateway, SignalListener

__all__ = [
    "BACKTEST_CHANNEL",
    "DeclarationsRow",
    "HolderRow",
    "ProcessExitGateway",
    "ProcessExitRow",
    "ProcessGateway",
    "ProcessRow",
    "SignalGateway",
    "SignalListener",
    "WaitingRow",
]
