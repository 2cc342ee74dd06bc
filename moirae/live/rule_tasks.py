"""What rules and alerts need without new rows, and how often."""

from archiver.clock import utc_now
from archiver.ingest import ArchiveWriter
from archiver.periodic import Periodic
from moirae.live.detection import Detector
from moirae.live.event_time import current_event_time
from moirae.live.follow_up import AlertFollowUp
from moirae.live.sources import IdleSources

_RELOAD_INTERVAL = 0.5  # seconds between checks for changed rules and relations
_FOLLOW_UP_INTERVAL = 0.5  # seconds between checks for changed alerts, apart from those after rows
_REVISIONS_INTERVAL = 0.5  # seconds between checks for revisions that rules read
_FLOWS_INTERVAL = 10.0  # seconds between writes of what was processed, and of what rules cost
_EACH_ROUND = 0.0  # seconds


def make_rule_tasks(
    archive: ArchiveWriter,
    detector: Detector,
    follow_up: AlertFollowUp,
    idle_sources: IdleSources,
    *,
    drain: bool,
) -> list[Periodic]:
    """The tasks in the order of a round of the loop."""

    def advance_sources() -> None:
        idle_sources.follow_rows_ahead(utc_now())
        idle_sources.advance()

    def reload_rules() -> None:
        detector.reload(current_event_time(archive))

    def detect_revisions() -> None:
        # Boundaries hold once the recalls of all alerts are requested.
        if detector.reads_revisions and not follow_up.run() and detector.detect_revisions():
            follow_up.run()

    def settle() -> None:
        if detector.settle():
            follow_up.run()

    periodics = [
        Periodic("reload rules", _RELOAD_INTERVAL, reload_rules),
        Periodic("store flows", _FLOWS_INTERVAL, detector.store_flows),
    ]
    if not drain:
        periodics += [
            Periodic("advance idle sources", _EACH_ROUND, advance_sources),
            Periodic("settle", _EACH_ROUND, settle),
            Periodic("follow revisions", _REVISIONS_INTERVAL, detect_revisions),
            _make_follow_up_task(follow_up),
        ]
    return periodics


def _make_follow_up_task(follow_up: AlertFollowUp) -> Periodic:
    """Follow up alerts at intervals; with many of them, in each round of the loop."""

    def run_once() -> None:
        if follow_up.run():
            task.run_again_after(_EACH_ROUND)

    task = Periodic("follow up alerts", _FOLLOW_UP_INTERVAL, run_once)
    return task
