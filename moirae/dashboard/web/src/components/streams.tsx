// What a stream has brought last, and what was refused of it.

import { type DeadLetterPage, type StreamRecords, type StreamSummary, get } from "../api";
import { useLoaded } from "../load";
import { Pending, Time, formatCount } from "./common";
import { DataTable, RowsTable } from "./rows";
import { LongText } from "./text";

const INTERVAL = 10_000; // milliseconds
const MAX_RECORDS = 10; // shown

/** The newest records of a stream, and its dead letters by reason. */
export function StreamDetails({ stream }: { stream: StreamSummary }) {
  return (
    <section aria-label={`Stream ${stream.stream}`}>
      <h3>Last records of {stream.stream}</h3>
      <LastRecords stream={stream.stream} />
      <h3>Dead letters of {stream.stream}</h3>
      <RefusedRecords stream={stream} />
    </section>
  );
}

function LastRecords({ stream }: { stream: string }) {
  const page = useLoaded(
    (signal) => get<StreamRecords>(`/streams/${encodeURIComponent(stream)}/records`, { limit: MAX_RECORDS }, signal),
    [stream],
    INTERVAL,
  );
  if (page.data === null) {
    return <Pending error={page.error} />;
  }
  if (!page.data.records.length) {
    return <p className="note">No record is archived yet.</p>;
  }
  return <RowsTable label={`Last records of ${stream}`} rows={[...page.data.records]} />;
}

function RefusedRecords({ stream }: { stream: StreamSummary }) {
  const counts: [string, number][] = [
    ["malformed", stream.malformed],
    ["quarantined", stream.quarantined],
    ["conflict", stream.conflicts],
    ["expired", stream.expired],
  ];
  const refused = counts.filter(([, count]) => count > 0);
  if (!refused.length) {
    return <p className="note">No record was rejected.</p>;
  }
  return (
    <>
      {refused.map(([reason, count]) => (
        <RefusedForReason key={reason} stream={stream.stream} reason={reason} count={count} />
      ))}
    </>
  );
}

/** The newest dead letters of a stream with one reason. */
function RefusedForReason({ stream, reason, count }: { stream: string; reason: string; count: number }) {
  const page = useLoaded(
    (signal) => get<DeadLetterPage>("/dead-letters", { stream, reason, limit: 3 }, signal),
    [stream, reason],
    INTERVAL,
  );
  return (
    <>
      <p>
        {reason}: {formatCount(count, "record")}
      </p>
      {page.data === null ? (
        <Pending error={page.error} />
      ) : (
        <DataTable
          label={`Newest dead letters of ${stream}: ${reason}`}
          columns={["Record", "Detail", "Content", "Rejected"]}
          rows={page.data.dead_letters.map((letter) => [
            letter.id,
            <LongText key="detail" text={letter.detail} />,
            <code key="raw" className="raw">
              <LongText text={letter.raw} length={200} />
            </code>,
            <Time key="at" value={letter.at} brief />,
          ])}
        />
      )}
    </>
  );
}
