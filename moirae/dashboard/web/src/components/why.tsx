// Why an alert fired, or why its rule did not at another time.

import { Alert as Message, Button, Card, CardBody, CardTitle, TextInput } from "./library";
import { type FormEvent, useEffect, useState } from "react";
import { type Row, get } from "../api";
import { Pending, formatCount, formatValue } from "./common";
import { DataTable, RowsTable } from "./rows";
import { LongText } from "./text";
import { useLoaded } from "../load";
import { formatTime } from "../time";

interface Condition {
  text: string;
  passed: number;
  values: Row;
  is_true: boolean | null;
}

interface Stage {
  name: string;
  sources: string[];
  rows: number;
  groups: number | null;
  conditions: Condition[];
  error: string | null;
}

interface Explanation {
  verdict: "firing" | "pending" | "hidden" | "none";
  version: string;
  at: string;
  reason: string;
  reads_from: string;
  reads_to: string;
  deciding: string[];
  streams: { stream: string; rows: number; late: number; newest: string | null }[];
  stages: Stage[];
  relations: Record<string, Row[]>;
  events: Row[];
  where: { condition: string; verdict: boolean | null; answers: Record<string, Row[]> } | null;
  routes: { receiver: string; route: string; is_muted: boolean }[];
  silences: string[];
}

const VERDICTS = { firing: "It fires", pending: "It is pending", hidden: "Hidden by where", none: "It does not fire" };
const VARIANTS = { firing: "danger", pending: "warning", hidden: "info", none: "info" } as const;
const MARKS = new Map<boolean | null, string>([
  [true, "true"],
  [false, "false"],
  [null, "NULL"],
]);

interface Props {
  alert: string;
  /** Event time that was chosen in a chart, in milliseconds. */
  chosen: number | null;
}

/** Asks on request: the rule is evaluated over the rows of the alert's key. */
export function WhyCard({ alert, chosen }: Props) {
  const [asked, setAsked] = useState<string | null>(null);
  const [typed, setTyped] = useState("");
  useEffect(() => {
    if (chosen !== null) {
      setTyped(new Date(chosen).toISOString().slice(0, 19));
    }
  }, [chosen]);
  function ask(event: FormEvent): void {
    event.preventDefault();
    setAsked(typed.trim());
  }
  return (
    <Card isCompact className="why-card">
      <CardTitle component="h2">Why?</CardTitle>
      <CardBody>
        <form className="search" onSubmit={ask}>
          <Button variant="secondary" onClick={() => setAsked("")}>
            Why did this fire?
          </Button>
          <TextInput aria-label="Event time (UTC)" placeholder="2026-01-31T12:00:00 UTC" value={typed} onChange={(_, value) => setTyped(value)} />
          <Button type="submit" variant="secondary" isDisabled={!typed.trim()}>
            Why not here?
          </Button>
        </form>
        <p className="note">Click a point of a chart to choose its time.</p>
        {asked !== null && <Answer key={asked} alert={alert} at={asked} />}
      </CardBody>
    </Card>
  );
}

function Answer({ alert, at }: { alert: string; at: string }) {
  const loaded = useLoaded((signal) => get<Explanation>(`/alerts/${encodeURIComponent(alert)}/why`, { at }, signal), [alert, at]);
  if (loaded.data === null) {
    return (
      <>
        {loaded.error === null && <p className="note">The rule is evaluated; this takes some seconds.</p>}
        <Pending error={loaded.error} lines={3} />
      </>
    );
  }
  const { verdict, reason, deciding, streams, stages, relations, events, where, routes, silences } = loaded.data;
  return (
    <>
      <Message variant={VARIANTS[verdict]} isInline title={`${VERDICTS[verdict]} at ${formatTime(loaded.data.at)}`} component="h3">
        <p>{reason}</p>
        {deciding.map((text) => (
          <p key={text}>
            <code>{text}</code>
          </p>
        ))}
      </Message>
      <p className="note">
        Reads {formatTime(loaded.data.reads_from)} to {formatTime(loaded.data.reads_to)}:{" "}
        {streams.map(({ stream, rows, late }) => `${stream} ${formatCount(rows, "row")}${late ? `, ${late} late left out` : ""}`).join("; ")}. Version <code>{loaded.data.version}</code>
      </p>
      {stages.map((stage) => (
        <StageTable key={stage.name} stage={stage} />
      ))}
      {Object.entries(relations).map(([name, rows]) => (
        <div key={name}>
          <h3>{name}, as valid then</h3>
          {rows.length ? <RowsTable rows={rows} label={`Rows of ${name}`} /> : <p className="note">No row.</p>}
        </div>
      ))}
      {events.length > 0 && (
        <>
          <h3>Newest events</h3>
          <RowsTable rows={events} label="Events" />
        </>
      )}
      {where && (
        <>
          <h3>where</h3>
          <p>
            <code>{where.condition}</code>: {MARKS.get(where.verdict)}
          </p>
          {Object.entries(where.answers).map(([name, rows]) => (rows.length ? <RowsTable key={name} rows={rows} label={`Answer of ${name}`} /> : <p key={name} className="note">{name}: no row</p>))}
        </>
      )}
      {verdict !== "none" && (
        <p className="note">
          {routes.length ? routes.map(({ receiver, is_muted }) => `Goes to ${receiver}${is_muted ? ", muted by its time intervals" : ""}`).join("; ") : "No route takes it"}.
          {silences.length > 0 && ` Silenced by ${silences.join(", ")}.`}
        </p>
      )}
    </>
  );
}

function StageTable({ stage }: { stage: Stage }) {
  const groups = stage.groups === null ? "" : `, ${formatCount(stage.groups, "group")}`;
  return (
    <div>
      <h3>
        {stage.name} from {stage.sources.join(", ")}
      </h3>
      {stage.error ? (
        <p className="note error">Not counted: {stage.error}</p>
      ) : (
        <p className="note">
          {formatCount(stage.rows, "row")}
          {groups}
        </p>
      )}
      {stage.conditions.length > 0 && (
        <DataTable
          label={`Conditions of ${stage.name}`}
          columns={["Condition", "Is", "Left", "Values"]}
          rows={stage.conditions.map(({ text, is_true, passed, values }) => [
            <code key="text">{text}</code>,
            MARKS.get(is_true) ?? "–",
            passed,
            <LongText key="values" text={Object.entries(values).map(([name, value]) => `${name} = ${formatValue(value)}`).join(", ")} />,
          ])}
        />
      )}
    </div>
  );
}
