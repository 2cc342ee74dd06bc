"""What receivers report without an open port: threads that ask PagerDuty and listen to Slack."""

from moirae.notify.inbound.listeners import Listeners, Reading, ReportedAcknowledgement

__all__ = ["Listeners", "Reading", "ReportedAcknowledgement"]
