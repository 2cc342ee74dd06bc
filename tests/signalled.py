"""A process that only waits for signals, as the processes of a workspace do, but starts in a moment.

It says `ready` on standard output, `reload` whenever it is to reload, and `stop` when it ends.
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
