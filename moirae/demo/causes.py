"""Causes of the failures on the simulated testbed.

A cause leaves *traces*: processes that run on the host before and during the failure. Its
*signature* is the set of terms (``attribute=value``) in those traces. The symptom depends on the
kind of the failure alone.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from itertools import chain
from typing import Literal, get_args

FailureKind = Literal["overload", "memory", "network", "silent"]
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)


@dataclass(frozen=True)
class ProcessTrace:
    """One process that a cause leaves on the host; an empty attribute has no fixed value."""

    process: str = ""
    experiment: str = ""
    user: str = ""

    def terms(self) -> list[str]:
        """The attributes with a fixed value as ``attribute=value``."""
        terms = []
        for field in fields(self):
            value = getattr(self, field.name)
            if value:
                terms.append(f"{field.name}={value}")
        return terms

    def merge(self, ordinary: ProcessTrace, terms: Collection[str]) -> ProcessTrace:
        """The attributes whose term is in `terms`; all others are those of `ordinary`."""
        attributes = {}
        for term in self.terms():
            if term in terms:
                attribute, value = term.split("=")
                attributes[attribute] = value
        return replace(ordinary, **attributes)


@dataclass(frozen=True)
class FailureCause:
    """Why a host fails, which traces that leaves, and how operators fix it."""

    name: str
    kind: FailureKind
    traces: tuple[ProcessTrace, ...]
    tag: str  # short name of the fix, the same for all failures of the cause
    notes: tuple[str, ...]  # the fix in the words of different operators

    @property
    def signature(self) -> tuple[str, ...]:
        """Its 2 to 4 distinct terms; every failure of the cause shows the first one."""
        terms = chain.from_iterable(trace.terms() for trace in self.traces)
        return tuple(dict.fromkeys(terms))


def _make_traces(experiment: str, user: str, *processes: str) -> tuple[ProcessTrace, ...]:
    """The named processes of one user's experiment, and one process of it with any name."""
    traces = []
    for process in (*processes, ""):
        traces.append(ProcessTrace(process, experiment, user))
    return tuple(traces)


CAUSES: tuple[FailureCause, ...] = (
    FailureCause(
        "runaway-crawler",
        "overload",
        _make_traces("web-index", "juniper", "crawler", "sqlite3"),
        "cap-crawler-threads",
        (
            "Killed the runaway crawler, asked its owner to cap it at 20 threads.",
            "Crawler had opened a thread per link. Stopped it and set its limit to 20 threads.",
            "Stopped web-index here; it comes back with a thread limit.",
        ),
    ),
    FailureCause(
        "fork-storm",
        "overload",
        _make_traces("swarm-test", "ash", "spawn-test", "xargs"),
        "kill-process-group",
        (
            "The test harness forked without end. Killed its process group and set ulimit -u 200.",
            "Fork storm of spawn-test: killed the whole group, as single kills were outrun.",
        ),
    ),
    FailureCause(
        "key-sweep",
        "overload",
        _make_traces("key-search", "poplar", "hashsweep", "openssl"),
        "lower-priority",
        (
            "Set the key sweep to nice 19, load fell at once.",
            "hashsweep ran at normal priority again. Lowered it and told the owner to submit it "
            "that way.",
        ),
    ),
    FailureCause(
        "trace-compression",
        "overload",
        _make_traces("flow-trace", "cedar", "logsplit", "gzip"),
        "move-compression-off-peak",
        (
            "Compression of a week of traces in one go. Moved it to 03:00, one file at a time.",
            "Paused logsplit and its gzip children, the owner runs them off peak from now on.",
        ),
    ),
    FailureCause(
        "simulation-on-all-cores",
        "overload",
        _make_traces("route-sim", "elm", "netsim", "mpirun"),
        "pin-to-two-cores",
        (
            "Route simulation had taken every core. Pinned it to two with taskset.",
            "Restarted netsim with two ranks in place of one per core.",
        ),
    ),
    FailureCause(
        "package-reindex",
        "overload",
        _make_traces("node-upkeep", "opsbot", "reindex", "xargs"),
        "stagger-upkeep",
        (
            "Our own package reindex ran in parallel over all trees. Stopped it, staggered the "
            "schedule.",
            "Upkeep job again: ended reindex and spread its start over the night.",
        ),
    ),
    FailureCause(
        "leaking-proxy",
        "memory",
        _make_traces("edge-cache", "willow", "cdn-proxy", "memcached"),
        "upgrade-proxy",
        (
            "cdn-proxy leaks with every aborted request. Restarted it with the patched build.",
            "Restarted the proxy, owner upgrades it to the release without the leak.",
        ),
    ),
    FailureCause(
        "trace-in-tmpfs",
        "memory",
        _make_traces("flow-trace", "cedar", "tmpwriter", "tcpdump"),
        "write-trace-to-disk",
        (
            "Packet trace was written to /tmp, which is memory here. Moved it to /data and freed "
            "the space.",
            "Removed the trace from tmpfs; the capture script now writes to disk.",
        ),
    ),
    FailureCause(
        "unbounded-heap",
        "memory",
        _make_traces("dht-lookup", "hazel", "ring-node", "java"),
        "set-heap-limit",
        (
            "Java started without -Xmx. Restarted the ring node with 512 MB of heap.",
            "Heap had grown to the whole machine; set a limit in the start script.",
        ),
    ),
    FailureCause(
        "matrix-in-memory",
        "memory",
        _make_traces("topology-fit", "rowan", "fit-worker", "octave"),
        "process-in-blocks",
        (
            "topology-fit loaded the whole distance matrix. Stopped it, owner reads it in blocks "
            "now.",
            "Killed fit-worker. It is to map the matrix from disk, block by block.",
        ),
    ),
    FailureCause(
        "abandoned-sessions",
        "memory",
        _make_traces("class-project", "linden", "notebook-kernel", "screen"),
        "close-idle-sessions",
        (
            "Dozens of idle notebook kernels left after class. Closed all older than a day.",
            "Ended the abandoned sessions and set an idle timeout of two hours.",
        ),
    ),
    FailureCause(
        "bulk-mirror",
        "network",
        _make_traces("bulk-mirror", "maple", "mirrord", "rsync"),
        "limit-mirror-rate",
        (
            "The mirror filled the uplink. Restarted rsync with --bwlimit=2000.",
            "Limited bulk-mirror to 2 MB/s, loss was gone within a minute.",
        ),
    ),
    FailureCause(
        "address-scan",
        "network",
        _make_traces("reach-map", "birch", "scanburst", "pcap-sink"),
        "slow-scan-down",
        (
            "Scan filled the connection table of the site's firewall. Set it to 50 probes per "
            "second.",
            "Stopped scanburst; it may come back at a twentieth of the rate.",
        ),
    ),
    FailureCause(
        "bandwidth-test-mesh",
        "network",
        _make_traces("bandwidth-map", "larch", "mesh-test", "iperf"),
        "one-test-at-a-time",
        (
            "All pairs measured bandwidth at once. The tests now take a lock, one at a time.",
            "Killed the iperf servers of bandwidth-map, owner serialises the runs.",
        ),
    ),
    FailureCause(
        "tunnel-loop",
        "network",
        _make_traces("overlay-net", "pine", "tund", "route-sync"),
        "break-tunnel-loop",
        (
            "Two tunnels carried each other's packets. Removed the default route over tun1.",
            "Routing loop in the overlay: took the tunnel down and fixed its route filter.",
        ),
    ),
    FailureCause(
        "multicast-flood",
        "network",
        _make_traces("stream-tree", "holly", "mcast-relay", "feed-source"),
        "lower-relay-ttl",
        (
            "The relay sent the feed back to its own group. Set its TTL to 1.",
            "Stopped mcast-relay, restarted with TTL 1 and without the second feed.",
        ),
    ),
    FailureCause(
        "kernel-module",
        "silent",
        _make_traces("packet-lab", "spruce", "insmod", "kmod-build"),
        "remove-module",
        (
            "Kernel hung in a packet-lab module. Power-cycled the node and removed the module.",
            "Node hung after a module was loaded; rebooted, module blacklisted until it is fixed.",
        ),
    ),
    FailureCause(
        "disk-full-of-cores",
        "silent",
        _make_traces("storage-grid", "olive", "core-writer", "blockd"),
        "delete-core-files",
        (
            "Root disk full of core files, nothing could log in or report. Deleted them, core "
            "size now 0.",
            "Freed the disk from the console: 40 GB of cores of blockd.",
        ),
    ),
    FailureCause(
        "kernel-update",
        "silent",
        _make_traces("node-upkeep", "opsbot", "kernel-update", "grub-install"),
        "boot-previous-kernel",
        (
            "New kernel did not bring up the network card. Booted the previous one and pinned it.",
            "Update rebooted into a kernel without the driver; back on the previous kernel.",
        ),
    ),
)
CAUSES_BY_NAME = {cause.name: cause for cause in CAUSES}
