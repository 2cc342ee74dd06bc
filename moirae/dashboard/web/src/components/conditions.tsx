// Parts of the status that are there only while something is not as usual.

import { Card, CardBody, CardTitle } from "./library";
import type { Status } from "../api";
import { Time, formatCount } from "./common";
import { DataTable } from "./rows";
import { LongText } from "./text";
import { formatBytes, formatDuration } from "../time";

const MAX_KEYS = 10; // ahead of the clock that are shown

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
          columns={["Process", "Last hour", "Last day", "Last", "Last reason"]}
          rows={status.restarts.map((restart) => [
            restart.process,
            restart.last_hour,
            restart.last_day,
            <Time key="last" value={restart.last_ended_at} brief />,
            <LongText key="reason" text={restart.reason} />,
          ])}
        />
      </CardBody>
    </Card>
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
            are in use{held.accepted ? "; it is accepted" : `: change the file, or accept it (moirae relations accept ${held.relation})`}
          </p>
        ))}
        {failing.length > 0 && (
          <DataTable
            label="Set aside"
            columns={["Kind", "Name", "State", "Tries", "Last", "Reason"]}
            rows={failing.map((subject) => [
              subject.kind,
              <LongText key="name" text={[subject.stream, subject.name].filter(Boolean).join(" ")} />,
              subject.is_set_aside ? "set aside" : "is tried again",
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
            {stream}: <LongText text={error} />, since <Time value={since} brief />
          </p>
        ))}
        {losses.length > 0 && (
          <DataTable
            label="Lost records"
            columns={["Stream", "Topic", "Partition", "Offsets", "Topic was", "Noticed"]}
            rows={losses.map((loss) => [
              loss.stream,
              loss.topic,
              loss.partition,
              `${loss.first_offset} to ${loss.last_offset ?? "?"}`,
              loss.reason,
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
        <p>{late ? `${formatCount(late, "row")} of others late because of rows ahead` : "No row of others is late because of them"}</p>
        {keys.length > 0 && (
          <DataTable
            label="Keys ahead of the clock"
            columns={["Stream", "Key", "Ahead", "Last"]}
            rows={keys.slice(0, MAX_KEYS).map(({ stream, key, ahead_seconds: seconds, at }) => [
              stream,
              <LongText key="key" text={Object.entries(key).map(([name, value]) => `${name}=${value}`).join(", ")} length={100} />,
              formatDuration(seconds * 1_000),
              <Time key="at" value={at} brief />,
            ])}
          />
        )}
      </CardBody>
    </Card>
  );
}
