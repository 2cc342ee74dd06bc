"""Rules with other values of their parameters (`moirae rules tune`)."""

from moirae.backtest.tuning.parameter_values import combine_values
from moirae.backtest.tuning.variants import check_variants, report_value

__all__ = ["check_variants", "combine_values", "report_value"]
