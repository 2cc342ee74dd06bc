"""A process that waits for signals like the processes of a workspace, but starts quickly.

It prints `ready`, then `reload` for each request to reload, and `stop` when it exits.
"""

from moirae.runtime.signals import Signals

# Seconds: so short that a signal often finds the main thread inside `Event.wait`, not only asleep in it.
_WAIT = 0.00005


def main() -> None:
    """Until a signal stops it."""
    signals = Signals(reloads=True)
    print("ready", flush=True)
    while not signals.stop.wait(_WAIT):
        if signals.reload.wait(_WAIT):
            signals.reload.clear()
            print("reload", flush=True)
    print("stop", flush=True)


if __name__ == "__main__":
    main()
