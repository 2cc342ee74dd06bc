// Parts of the status that are there only while something is not as usual.

import { Card, CardBody, CardTitle } from "./library";
import type { Status } from "../api";
import { Time, describeKey, formatCount } from "./common";
import { DataTable } from "./rows";
import { LongText, MarkedText } from "./text";
import { formatBytes, formatDuration } from "../time";

const MAX_KEYS = 10; // ahead of the clock that are shown
const LOSS_CAUSES: Record<Status["lost_records"][number]["reason"], string> = {
  deleted: "deleted from the topic, as by its retention",
  recreated: "deleted with the topic, which was made again",
  truncated: "truncated before it was read: by the brokers, or with the file",
  removed: "removed with the file, before it was read",
};

/** Processes that ended by an error within a day, with the last reason. */
export function RestartCard({ status }: { status: Status }) {
  if (!status.restarts.length) {
    return null;
  }
  return (
    <Card isCompact>
      <CardTitle component="h2">Restarts after an error</CardTitle>
      <CardBody>
        <DataTable
          label="Restarts"
          columns={["Process", "Last hour", "Last day", "Last", "Last reason", "No problem"]}
          rows={status.restarts.map((restart) => [
            restart.process,
            restart.last_hour,
            restart.last_day,
            <Time key="last" value={restart.last_ended_at} brief />,
            <LongText key="reason" text={restart.reason} />,
            <CrashLoopEnd key="end" restart={restart} />,
          ])}
        />
      </CardBody>
    </Card>
  );
}

/** When ends by errors are no problem any more. */
function CrashLoopEnd({ restart }: { restart: Status["restarts"][number] }) {
  if (!restart.is_crash_loop) {
    return <>now</>;
  }
  if (restart.ends_at === null) {
    return <>once it has worked for 10 min</>;
  }
  return (
    <>
      <Time value={restart.ends_at} brief /> if it works until then
    </>
  );
}

/** Input that waits: not read yet, set aside, held back, or until files are rewritten. */
export function InputCard({ status }: { status: Status }) {
  const { unread_input: unread, column_rewrites: rewrites, held_relations: relations } = status;
  const failing = [...status.set_aside, ...status.retrying];
  if (!unread.length && !rewrites.length && !relations.length && !failing.length) {
    return null;
  }
  return (
    <Card isCompact>
      <CardTitle component="h2">Input that waits</CardTitle>
      <CardBody>
        {unread.map(({ stream, waiting_seconds: seconds }) => (
          <p key={stream}>
            {stream}: the oldest unread input arrived {formatDuration(seconds * 1_000)} ago
          </p>
        ))}
        {rewrites.map((rewrite) => (
          <p key={rewrite.stream}>
            {rewrite.stream}: {rewrite.state === "checking" ? "values are checked" : "files are rewritten"} for changed columns (
            {rewrite.columns.join(", ")}), {rewrite.steps_done.toLocaleString("en")} of {rewrite.steps.toLocaleString("en")} steps,{" "}
            {formatBytes(rewrite.bytes_needed)} of disk needed; new input waits
            {rewrite.reason !== null && (
              <>
                . <LongText text={rewrite.reason} />
              </>
            )}
          </p>
        ))}
        {(relations as unknown as HeldRelation[]).map((held) => (
          <p key={held.relation}>
            Relation {held.relation}: a version with {formatCount(held.rows, "row")} is held back, as {formatCount(held.rows_in_use, "row")}{" "}
            are in use{held.accepted ? "; it is accepted, and used once the live process runs" : ": correct its source, or run "}
            {!held.accepted && <code>moirae relations accept {held.relation}</code>}
          </p>
        ))}
        {failing.length > 0 && (
          <DataTable
            label="Set aside"
            columns={["Name", "State", "Tries", "Last try", "Reason"]}
            rows={failing.map((subject) => [
              <LongText key="name" text={describeSubject(subject)} />,
              subject.is_set_aside ? "set aside" : "tried again",
              subject.tries,
              subject.last_failed_at ? <Time key="last" value={subject.last_failed_at} brief /> : "–",
              <LongText key="reason" text={subject.reason} />,
            ])}
          />
        )}
      </CardBody>
    </Card>
  );
}

/** `file landing/m/a.jsonl of stream m`, or `relation hosts` */
function describeSubject({ kind, name, stream }: Status["set_aside"][number]): string {
  return stream ? `${kind} ${name} of stream ${stream}` : `${kind} ${name}`;
}

/** Topics that cannot be read, and records that were lost before they were read. */
export function TopicCard({ status }: { status: Status }) {
  const { source_errors: errors, lost_records: losses } = status;
  if (!errors.length && !losses.length) {
    return null;
  }
  return (
    <Card isCompact>
      <CardTitle component="h2">Topics</CardTitle>
      <CardBody>
        {errors.map(({ stream, error, since }) => (
          <p key={stream}>
            {stream}, since <Time value={since} brief />: <MarkedText text={error} />
          </p>
        ))}
        {losses.length > 0 && (
          <DataTable
            label="Lost records"
            columns={["Stream", "Topic", "Partition", "Offsets", "Cause", "Noticed"]}
            rows={losses.map((loss) => [
              loss.stream,
              loss.topic,
              loss.partition,
              loss.last_offset === null ? `from ${loss.first_offset} on, number unknown` : `${loss.first_offset} to ${loss.last_offset}`,
              LOSS_CAUSES[loss.reason],
              <Time key="at" value={loss.noticed_at} brief />,
            ])}
          />
        )}
      </CardBody>
    </Card>
  );
}

/** `sql.archive.relations.HeldRelationRow` */
interface HeldRelation {
  relation: string;
  rows: number;
  rows_in_use: number;
  accepted: boolean;
}

/** The keys whose rows are furthest ahead of the clock. */
export function ClockCard({ status }: { status: Status }) {
  const streams = Object.entries(status.streams);
  const keys = streams.flatMap(([stream, { ahead }]) => ahead.keys.map((entry) => ({ stream, ...entry })));
  const late = streams.reduce((sum, [, { ahead }]) => sum + ahead.late, 0);
  if (!keys.length && !late) {
    return null;
  }
  keys.sort((one, other) => other.ahead_seconds - one.ahead_seconds);
  return (
    <Card isCompact>
      <CardTitle component="h2">Clocks that run ahead</CardTitle>
      <CardBody>
        <p>
          {late
            ? `${formatCount(late, "row")} of other keys late because of rows ahead of the clock`
            : "No row of other keys is late because of them"}
        </p>
        {keys.length > 0 && (
          <DataTable
            label="Keys ahead of the clock"
            columns={["Stream and key", "Ahead", "Last"]}
            isNarrow
            rows={keys.slice(0, MAX_KEYS).map(({ stream, key, ahead_seconds: seconds, at }) => [
              <LongText key="key" text={`${stream} ${describeKey(key)}`} length={100} />,
              formatDuration(seconds * 1_000),
              <Time key="at" value={at} brief />,
            ])}
          />
        )}
      </CardBody>
    </Card>
  );
}
