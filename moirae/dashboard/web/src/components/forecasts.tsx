// How the probabilities of resolutions have held as they were shown.

import { Alert as Message, Card, CardBody, CardTitle } from "./library";
import { type ForecastRecord, get } from "../api";
import { formatPercent } from "../answers";
import { Pending, formatCount, shortName } from "./common";
import { DataTable } from "./rows";
import { useLoaded } from "../load";

const INTERVAL = 30_000; // milliseconds

/** The record of each recall by `learned`; nothing without such a recall. */
export function ForecastRecordCard() {
  const records = useLoaded((signal) => get<ForecastRecord[]>("/similarity/forecasts", {}, signal), [], INTERVAL);
  if (records.data !== null && !records.data.length) {
    return null;
  }
  const rows = records.data ?? [];
  return (
    <Card isCompact>
      <CardTitle component="h2">Probabilities of resolutions, as they were shown</CardTitle>
      <CardBody>
        {records.data === null && <Pending error={records.error} />}
        {rows.map(
          (record) =>
            record.reason && (
              <Message
                key={`${record.rule} ${record.recall}`}
                variant="warning"
                isInline
                isPlain
                title={`${shortName(record.rule)} ${record.recall}: ${record.reason}`}
              />
            ),
        )}
        {rows.length > 0 && (
          <>
            <DataTable
              label="Probabilities of resolutions"
              columns={["Recall", "Resolved", "Log loss", "Of frequencies", "Difference, 95 % interval", "Withheld", "Shown"]}
              rows={rows.map((record) => [
                `${shortName(record.rule)} ${record.recall}`,
                formatCount(record.episodes, "episode"),
                formatLoss(record.log_loss),
                formatLoss(record.frequency_log_loss),
                describeExcess(record),
                record.withheld_share === null ? "–" : formatPercent(record.withheld_share),
                record.reason ? "frequencies" : "learned",
              ])}
            />
            <p className="note">
              Of the last 50 resolved episodes. Lower is better: below 0, the learned probabilities are better than plain frequencies.
            </p>
          </>
        )}
      </CardBody>
    </Card>
  );
}

function formatLoss(loss: number | null): string {
  return loss === null ? "–" : loss.toFixed(2);
}

/** `−0.31 (−0.52 to −0.11)` */
function describeExcess({ excess, excess_low: low, excess_high: high }: ForecastRecord): string {
  if (excess === null || low === null || high === null) {
    return "–";
  }
  return `${formatSigned(excess)} (${formatSigned(low)} to ${formatSigned(high)})`;
}

function formatSigned(value: number): string {
  return `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(2)}`;
}
