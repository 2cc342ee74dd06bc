// Who was told of an alert, and when.

import { type Notification, get } from "../api";
import { useLoaded } from "../load";
import { Time } from "./common";
import { Card, CardBody, CardTitle } from "./library";
import { DataTable } from "./rows";
import { LongText } from "./text";

const RELOAD_INTERVAL = 10_000; // milliseconds
const STATES: Record<string, string> = {
  pending: "waits",
  folded: "counted in a summary",
  delivered: "delivered",
  failed: "given up",
};

/** The messages that name an alert; nothing where none does. */
export function NotificationsCard({ alert }: { alert: string }) {
  const messages = useLoaded((signal) => get<Notification[]>("/notifications", { alert }, signal), [alert], RELOAD_INTERVAL);
  if (!messages.data?.length) {
    return null;
  }
  return (
    <Card isCompact>
      <CardTitle component="h2">Notifications</CardTitle>
      <CardBody>
        <DataTable
          label="Notifications"
          columns={["Receiver", "Message", "State", "At", "Error"]}
          rows={messages.data.map((message) => [
            message.receiver,
            `${message.status} (${message.cause})`,
            STATES[message.state] ?? message.state,
            <Time key="at" value={message.ended_at ?? message.created_at} brief />,
            <LongText key="error" text={message.error ?? ""} length={100} />,
          ])}
        />
      </CardBody>
    </Card>
  );
}
