// Messages to receivers: what became of them, and who was told of an alert.

import { Button, Card, CardBody, CardTitle, Label } from "./library";
import { useState } from "react";
import { Link } from "react-router";
import { type AlertDelivery, type HeldBackAlert, type Notification, get } from "../api";
import { useLoaded } from "../load";
import { Pending, Time, formatCount } from "./common";
import { DataTable } from "./rows";
import { LongText } from "./text";

const PAGE_SIZE = 20;
const COLUMNS = ["Number", "Receiver", "Cause", "About", "State", "Attempts", "Time", "Error"];
// Beside an alert, whose page has less room.
const BRIEF_COLUMNS = ["Receiver", "Cause", "State", "Time", "Error"];
const STATE_COLORS = { delivered: "green", pending: "blue", folded: "purple", failed: "red" } as const;

/** Messages, newest first. `interval`: milliseconds between loads. */
export function MessageTable({ receiver, alert, interval }: { receiver?: string; alert?: string; interval: number }) {
  const [size, setSize] = useState(PAGE_SIZE);
  const messages = useLoaded(
    (signal) => get<Notification[]>("/notifications", { receiver, alert, limit: size + 1 }, signal),
    [receiver, alert, size],
    interval,
  );
  if (messages.data === null) {
    return <Pending error={messages.error} />;
  }
  if (!messages.data.length) {
    return <p className="note">No message yet.</p>;
  }
  const shown = alert ? BRIEF_COLUMNS : COLUMNS;
  const rows = messages.data.slice(0, size).map((message) => {
    const cells = describeMessage(message);
    return shown.map((column) => cells[COLUMNS.indexOf(column)]);
  });
  return (
    <>
      <DataTable label="Messages" columns={shown} rows={rows} />
      {messages.data.length > size && (
        <Button variant="secondary" onClick={() => setSize(Math.min(900, size + 100))} isDisabled={size >= 900}>
          Show more
        </Button>
      )}
    </>
  );
}

function describeMessage(message: Notification) {
  const state = message.summary === null ? message.state : `counted in ${message.summary}`;
  const color = STATE_COLORS[message.state as keyof typeof STATE_COLORS];
  return [
    message.id,
    <Link key="receiver" to={`/receivers/${encodeURIComponent(message.receiver)}`}>
      {message.receiver}
    </Link>,
    message.cause,
    `${formatCount(message.alert_count, "alert")}, ${message.status}`,
    <Label key="state" isCompact color={color}>
      {state}
    </Label>,
    message.attempts,
    <Time key="at" value={message.ended_at ?? message.created_at} brief />,
    <LongText key="error" text={message.error ?? ""} />,
  ];
}

/** The messages about an alert. */
export function NotificationCard({ alert }: { alert: string }) {
  return (
    <Card isCompact>
      <CardTitle component="h2">Notifications</CardTitle>
      <CardBody>
        <HeldBackNote alert={alert} />
        <MessageTable alert={alert} interval={10_000} />
      </CardBody>
    </Card>
  );
}

function HeldBackNote({ alert }: { alert: string }) {
  const entry = useHeldBack().get(alert);
  return entry ? <p className="note">Held back: <HeldBackReason entry={entry} /></p> : null;
}

/** Alerts that fire and are held back, by ID. */
export function useHeldBack(): ReadonlyMap<string, HeldBackAlert> {
  const alerts = useLoaded((signal) => get<HeldBackAlert[]>("/notifications/held-back", {}, signal), [], 5_000);
  return new Map(alerts.data?.map((entry) => [entry.id, entry]));
}

/** Why an alert is held back. */
export function HeldBackReason({ entry }: { entry: HeldBackAlert }) {
  return (
    <>
      {entry.silences.map((silence) => (
        <span key={silence.id}>
          <Link to={`/silences?silence=${silence.id}`}>silenced</Link> by {silence.author}, ends <Time value={silence.ends_at} brief />: <LongText text={silence.comment} />{" "}
        </span>
      ))}
      {entry.inhibited_by && (
        <span>
          inhibited by <Link to={`/alerts/${entry.inhibited_by}`}>{entry.inhibitor}</Link>
        </span>
      )}
    </>
  );
}

/** Who was told of alerts, by alert. */
export function useDeliveries(alerts: readonly string[]): ReadonlyMap<string, AlertDelivery[]> {
  const deliveries = useLoaded(
    (signal) =>
      alerts.length
        ? get<AlertDelivery[]>("/notifications/deliveries", { alert: [...alerts] }, signal)
        : Promise.resolve([]),
    [alerts],
  );
  const byAlert = new Map<string, AlertDelivery[]>();
  deliveries.data?.forEach((entry) => byAlert.set(entry.alert_id, [...(byAlert.get(entry.alert_id) ?? []), entry]));
  return byAlert;
}

/** `told: ops 3 min ago, chat 2 min ago` */
export function DeliveryNote({ deliveries }: { deliveries: readonly AlertDelivery[] }) {
  return (
    <span className="note">
      told:{" "}
      {deliveries.map((entry, index) => (
        <span key={entry.receiver}>
          {index > 0 && ", "}
          {entry.receiver} <Time value={(entry.firing_at ?? entry.resolved_at) as string} brief />
        </span>
      ))}
    </span>
  );
}
