"""Why a rule has fired, or has not (`moirae rules why`): the rule over the rows of one key, stage by
stage.

The verdict comes from events as the past of rules has them, by live's engines, and from alerts folded
as live. Stages are counted by statements of Spark.
"""

from moirae.why.alerts_at import format_value
from moirae.why.explain import add_routes, explain_alert
from moirae.why.explanation import Explanation

__all__ = ["Explanation", "add_routes", "explain_alert", "format_value"]
