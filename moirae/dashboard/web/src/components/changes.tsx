import { Card, CardBody, CardTitle, Label } from "./library";
import { type EventChanges, get } from "../api";
import { useLoaded } from "../load";
import { formatDuration } from "../time";
import { Pending, Time } from "./common";
import { LongText } from "./text";

type Change = EventChanges["changes"][number];

interface ChangesProps {
  eid: string;
  /** Of the similarity recall: the most similar past alerts are asked again when it changes. */
  revision: number;
}

/** What changed near the alert in time and place. Nothing, where no stream declares changes. */
export function ChangesCard({ eid, revision }: ChangesProps) {
  const found = useLoaded((signal) => get<EventChanges>(`/events/${eid}/changes`, {}, signal), [eid, revision]);
  if (found.data && !found.data.streams.length) {
    return null;
  }
  return (
    <Card isCompact component="section" aria-label="What changed before">
      <CardTitle component="h2">What changed before</CardTitle>
      <CardBody>{found.data === null ? <Pending error={found.error} lines={2} /> : <Changes found={found.data} />}</CardBody>
    </Card>
  );
}

function Changes({ found }: { found: EventChanges }) {
  const span = formatDuration(found.within_seconds * 1000);
  return (
    <>
      {found.changes.length ? (
        <ol className="changes">
          {found.changes.map((change) => (
            <li key={`${change.stream} ${change.ts} ${change.what} ${JSON.stringify(change.place)}`}>
              <ChangeLine change={change} ts={found.ts} />
            </li>
          ))}
        </ol>
      ) : (
        <p className="note">
          No change of this place within {span} before, in {found.streams.join(", ")}.
        </p>
      )}
      {found.omitted > 0 && <p className="note">and {found.omitted} more.</p>}
      {found.unread.map(({ stream, reason }) => (
        <p key={stream} className="note">
          {stream}: {reason}
        </p>
      ))}
      {found.changes.length > 0 && <p className="note">Within {span} before. Coming before does not mean causing.</p>}
    </>
  );
}

function ChangeLine({ change, ts }: { change: Change; ts: string }) {
  const place = Object.entries(change.place)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
  const age = Date.parse(ts) - Date.parse(change.ts);
  return (
    <>
      <strong>
        <LongText text={change.what} length={120} />
      </strong>{" "}
      {formatDuration(age)} before, <Time value={change.ts} brief />
      <br />
      <Label isCompact variant="outline">
        {change.stream}
      </Label>{" "}
      <span className="note">
        {place || "everywhere"}
        {change.steps > 0 && `, ${change.steps} ${change.steps === 1 ? "step" : "steps"} away`}
      </span>
      <p className="note">{describeEvidence(change)}</p>
    </>
  );
}

function describeEvidence({ similar, similar_with_change, hours, not_compared }: Change): string {
  const parts = [];
  if (similar) {
    parts.push(`such a change came before ${similar_with_change} of the ${similar} most similar alerts`);
  }
  if (hours) {
    const other = formatShare(hours.other_with_change / hours.other_hours);
    parts.push(`before ${hours.with_change} of ${hours.alert_hours} hours with an alert of this rule, and before ${other} of ${hours.other_hours} without`);
    if (hours.ratio !== null) {
      parts.push(`ratio ${format(hours.ratio)} (95 %: ${format(hours.low)} to ${format(hours.high)})`);
    }
  } else if (not_compared) {
    parts.push(`not compared with other hours: ${not_compared}`);
  }
  return parts.join("; ");
}

function formatShare(share: number): string {
  const percent = 100 * share;
  return `${percent >= 10 || percent === 0 ? percent.toFixed(0) : percent.toFixed(1)} %`;
}

function format(ratio: number): string {
  return ratio.toPrecision(2).includes("e") ? Math.round(ratio).toString() : ratio.toPrecision(2);
}
