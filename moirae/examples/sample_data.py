"""Sample data of the workspace that `moirae init` creates: three days of four hosts, from a seed.

One symptom (high CPU) has several causes, which show only in the processes of the host. Each cause
occurs at least twice, so that the newest alert has a similar past. One host runs a backup at full
CPU every day: high there is normal.
"""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

Row = dict[str, str | float]
Processes = tuple[tuple[str, str], ...]  # (process, user)

SPAN = timedelta(days=3)
CPU_INTERVAL = timedelta(minutes=5)
PROCESS_INTERVAL = timedelta(minutes=15)
LEAD = timedelta(minutes=20)  # from the start of the processes of an incident to high CPU


@dataclass(frozen=True)
class Host:
    """A host in normal operation."""

    name: str
    cpu: float  # mean, percent
    processes: Processes  # those that always run


@dataclass(frozen=True)
class Incident:
    """High CPU of one host, and the processes that cause it."""

    host: str
    start: timedelta  # of high CPU, from the start of the data
    duration: timedelta  # of high CPU
    processes: Processes  # they start `LEAD` earlier


HOSTS = (
    Host("alpha", 35, (("nginx", "web"), ("appserver", "web"))),
    Host("beta", 30, (("nginx", "web"), ("appserver", "web"))),
    Host("gamma", 20, (("postgres", "postgres"), ("collector", "monitor"))),
    Host("delta", 25, (("redis", "cache"), ("collector", "monitor"))),
)

_BACKUP = (("pg_dump", "backup"), ("gzip", "backup"))
_REINDEX = (("reindex", "search"), ("xargs", "search"))
_CRAWLER = (("crawler", "juniper"), ("sqlite3", "juniper"))
_COMPRESSION = (("logsplit", "cedar"), ("gzip", "cedar"))


def _incident(hour: int, host: str, processes: Processes, minutes: int) -> Incident:
    return Incident(host, timedelta(hours=hour), timedelta(minutes=minutes), processes)


INCIDENTS = (
    _incident(5, "beta", _REINDEX, 40),
    _incident(9, "beta", _CRAWLER, 35),
    _incident(12, "gamma", _BACKUP, 360),
    _incident(15, "alpha", _REINDEX, 30),
    _incident(21, "delta", _COMPRESSION, 45),
    _incident(27, "alpha", _CRAWLER, 40),
    _incident(36, "gamma", _BACKUP, 360),
    _incident(40, "beta", _REINDEX, 30),
    _incident(51, "beta", (("crawler", "juniper"), ("wget", "juniper")), 35),
    _incident(58, "alpha", _COMPRESSION, 40),
    _incident(60, "gamma", _BACKUP, 360),
    _incident(71, "alpha", (*_CRAWLER, ("wget", "juniper")), 35),
)
# An interval in which one host sends nothing: (host, start, end), from the start of the data.
SILENCE = ("delta", timedelta(hours=30), timedelta(hours=30, minutes=40))


def sample_rows(end: datetime) -> Mapping[str, Sequence[Row]]:
    """The rows of the streams `cpu` and `process` in time order, by stream name.

    The last ones are just before `end`. Two calls differ only in their times, by the difference of
    their ends.
    """
    start = end - SPAN
    return {"cpu": list(_cpu_rows(start)), "process": list(_process_rows(start))}


def _cpu_rows(start: datetime) -> Iterator[Row]:
    rng = random.Random(1)
    for offset in _offsets(CPU_INTERVAL):
        for host in HOSTS:
            # Drawn for silent hosts too: the values of one host do not depend on another's silence.
            normal = rng.gauss(host.cpu, 5)
            high = rng.uniform(93, 99)
            if _is_silent(host, offset):
                continue
            cpu = normal
            if any(_is_high(incident, host, offset) for incident in INCIDENTS):
                cpu = high
            yield {
                "ts": _timestamp(start + offset),
                "host": host.name,
                "cpu": round(max(cpu, 0.5), 1),
            }


def _process_rows(start: datetime) -> Iterator[Row]:
    for offset in _offsets(PROCESS_INTERVAL):
        for host in HOSTS:
            if _is_silent(host, offset):
                continue
            processes = list(host.processes)
            for incident in INCIDENTS:
                if _runs(incident, host, offset):
                    processes += incident.processes
            for process, user in processes:
                yield {
                    "ts": _timestamp(start + offset),
                    "host": host.name,
                    "process": process,
                    "user": user,
                }


def _offsets(interval: timedelta) -> Iterator[timedelta]:
    for number in range(SPAN // interval):
        yield number * interval


def _is_high(incident: Incident, host: Host, offset: timedelta) -> bool:
    """Whether the incident causes high CPU of the host at this time."""
    end = incident.start + incident.duration
    return incident.host == host.name and incident.start <= offset < end


def _runs(incident: Incident, host: Host, offset: timedelta) -> bool:
    """Whether the processes of the incident run on the host at this time."""
    end = incident.start + incident.duration
    return incident.host == host.name and incident.start - LEAD <= offset < end


def _is_silent(host: Host, offset: timedelta) -> bool:
    name, start, end = SILENCE
    return host.name == name and start <= offset < end


def _timestamp(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")
