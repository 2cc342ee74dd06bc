"""The entry point of the live process."""

import threading
from contextlib import suppress

from moirae.config import Settings
from moirae.errors import Stopped
from moirae.live.composition import build_live_process
from moirae.runtime import watch_parent


def run_live(
    settings: Settings,
    stop: threading.Event,
    drain: bool,
    apply_rules: bool = False,
    parent_pid: int | None = None,
    reload_requested: threading.Event | None = None,
) -> None:
    """Run until `stop` is set or, if `drain`, until the sources are read and settled.

    `apply_rules`: apply the rule files of the workspace first. `parent_pid`: end with this process.
    `reload_requested`: set to have the rule files checked again. Raises `MoiraeError`.
    """
    watch_parent(parent_pid, stop)
    with suppress(Stopped):
        live = build_live_process(
            settings,
            stop=stop,
            drain=drain,
            reload_requested=reload_requested or threading.Event(),
        )
        with live.role.record_failure(), suppress(Stopped):
            if apply_rules:
                live.apply_rules()
            live.run()
