"""The status that live clients get: what a page shows at a glance."""

import sql
from moirae.inspect import assess_live_condition
from moirae.runtime import list_processes
from moirae.services import to_json
from sql.alerts import AlertGateway
from sql.recalls import TaskGateway


def read_live_status(connection: sql.Connection) -> bytes:
    """Counts of alerts and recalls, the queue, and processes, as JSON."""
    alerts = AlertGateway(connection)
    tasks = TaskGateway(connection)
    queue = tasks.waiting()
    processes = list_processes(connection)
    return to_json(
        {
            "alerts": alerts.count_alerts(),
            "active_alerts": alerts.count_active(),
            "recalls": tasks.count_by_state(),
            "queued": queue.waiting,
            "live": assess_live_condition(processes),
            "processes": [
                {"role": process["role"], "state": process["state"], "alive": process["alive"]}
                for process in processes
            ],
        }
    )
