"""The built-in alert `RuleLosesVerdicts`: a rule is in quarantine for the verdicts that it lost."""

from collections.abc import Callable
from datetime import datetime

from archiver.clock import utc_now
from moirae.alerts import built_in
from sql.alerts import AlertGateway
from sql.rules import DeploymentGateway, LosingRuleRow

LOSING_RULE = "moirae/RuleLosesVerdicts"


class LosingRulesMonitor:
    """Resumes rules whose losses are few again, and raises an alert for each of the others."""

    def __init__(
        self,
        alerts: AlertGateway,
        deployments: DeploymentGateway,
        resume_recovered: Callable[[], None],
        clock: Callable[[], datetime] = utc_now,
    ) -> None:
        """`resume_recovered`: ends the quarantine of rules whose losses are few again."""
        self._alerts = alerts
        self._deployments = deployments
        self._resume_recovered = resume_recovered
        self._clock = clock

    def run_once(self) -> None:
        """Resume rules; raise, prolong or resolve alerts."""
        self._resume_recovered()
        now = self._clock()
        losing = {
            built_in.make_alert_id(f"losing/{rule.rule}/{rule.losing_since.isoformat()}"): rule
            for rule in self._deployments.list_losing()
        }
        open_alerts = self._alerts.list_open(LOSING_RULE)
        self._alerts.update(built_in.continue_alerts(open_alerts, losing, now))
        for alert in open_alerts:
            losing.pop(alert.id, None)
        for alert_id, rule in losing.items():
            description = built_in.describe_alert(
                alert_id,
                LOSING_RULE,
                labels={"alertname": "RuleLosesVerdicts", "severity": "page", "rule": rule.rule},
                annotations=_annotate(rule),
                key={"rule": rule.rule},
            )
            lifetime = built_in.make_lifetime(rule.losing_since, now, now)
            self._alerts.put([(description, lifetime)])


def _annotate(rule: LosingRuleRow) -> dict[str, str]:
    return {
        "summary": f"Rule {rule.rule} is in quarantine: it loses too many verdicts",
        "description": f"It {rule.error or 'lost verdicts'}. One row in 100 is still evaluated. See "
        f"`moirae rules show {rule.rule}`; it resumes when it loses few rows for ten minutes, or "
        "when its SQL is changed.",
    }
