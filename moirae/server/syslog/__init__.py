"""Syslog over TCP, TLS and UDP: messages become batches in the landing folders of their streams."""

from moirae.server.syslog.listeners import SyslogListeners

__all__ = ["SyslogListeners"]
