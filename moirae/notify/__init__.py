"""Notifications: changed alerts become messages of groups, which receivers are sent.

`routing`, `grouping`, `muting`, `intake` and `folding` decide: alerts, silences and the time in,
messages out. `process` acts, in a process of its own.
"""

from moirae.notify.run import run_notify

__all__ = ["run_notify"]
