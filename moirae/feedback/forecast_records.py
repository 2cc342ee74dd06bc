"""How the forecasts of recalls by `learned` have held as they were shown."""

import sql
from archiver.times import duration_to_micros
from moirae.deployments import RuleRegistry
from moirae.rules import SimilarRecall
from recall.relevance import ShownForecast, ShownRecord, measure_shown
from recall.similarity.measures import LEARNED_MEASURE
from sql.similarity import ForecastGateway, RecordFigures

# Of each recall, the events whose forecasts are stored until they are resolved.
_MAX_FORECASTS = 1_000


def update_forecast_records(connection: sql.Connection) -> None:
    """Compare what was shown with what is known by now, for each recall of the applied rules.

    A recall whose forecasts were worse than plain frequencies shows frequencies until they are not
    worse any more: what would have been shown is stored meanwhile.
    """
    gateway = ForecastGateway(connection)
    recalls = []
    for definition in RuleRegistry(connection).rules_with_recalls():
        for name, recall in definition.recalls.items():
            if isinstance(recall, SimilarRecall) and recall.similar.measure == LEARNED_MEASURE:
                key = (definition.name, definition.version, name)
                recalls.append(key)
                gateway.delete_oldest(key, _MAX_FORECASTS)
                shown = [
                    ShownForecast(row.ts, row.tag, row.probability, row.frequency, row.withheld)
                    for row in gateway.list_resolved(key)
                ]
                record = measure_shown(shown, duration_to_micros(recall.similar.gap))
                gateway.put_record(key, make_figures(record))
    gateway.delete_other_records(recalls)


def make_figures(record: ShownRecord | None) -> RecordFigures:
    """What is stored of a record; None: no shown forecast was resolved yet."""
    if record is None:
        return RecordFigures(episodes=0)
    return RecordFigures(
        episodes=record.episodes,
        withheld_share=record.withheld_share,
        log_loss=record.log_loss,
        frequency_log_loss=record.frequency_log_loss,
        excess=record.excess.value,
        excess_low=record.excess.low,
        excess_high=record.excess.high,
        reason=describe_excess(record) if record.is_worse else None,
    )


def describe_excess(record: ShownRecord) -> str:
    """Why frequencies are shown, as a sentence."""
    excess = record.excess
    return (
        f"Plain frequencies are shown: over the last {record.episodes} resolved episodes the "
        f"learned probabilities were worse (log loss {record.log_loss:.2f}, frequencies "
        f"{record.frequency_log_loss:.2f}, difference {excess.value:.2f}, 95 % interval "
        f"{excess.low:.2f} to {excess.high:.2f})."
    )
