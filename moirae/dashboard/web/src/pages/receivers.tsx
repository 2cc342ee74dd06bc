import { Alert as Message, Button, Card, CardBody, CardTitle, Label, PageSection, Title } from "../components/library";
import { useState } from "react";
import { Link, useParams } from "react-router";
import { type ReceiverStatus, type ReceiverTest, describeProblem, get, post } from "../api";
import { Missing, Pending, Time, useTitle } from "../components/common";
import { MessageTable } from "../components/notifications";
import { DataTable } from "../components/rows";
import { LongText } from "../components/text";
import { useLoaded } from "../load";
import { useIsOperator } from "../session";

const INTERVAL = 5_000; // milliseconds
const COLUMNS = ["Receiver", "Channel", "State", "Last delivery", "Waiting", "Given up", "Error", "Test"];

export function ReceiversPage() {
  const name = useParams().receiver;
  useTitle(name ?? "Receivers");
  const receivers = useLoaded((signal) => get<ReceiverStatus[]>("/receivers", {}, signal), [], INTERVAL);
  if (receivers.data === null) {
    return (
      <PageSection>
        <Title headingLevel="h1">Receivers</Title>
        <Pending error={receivers.error} lines={4} />
      </PageSection>
    );
  }
  const shown = name === undefined ? receivers.data : receivers.data.filter(({ receiver }) => receiver === name);
  return (
    <PageSection>
      <Title headingLevel="h1">{name === undefined ? "Receivers" : `Receiver ${name}`}</Title>
      {name !== undefined && <Link to="/receivers">All receivers</Link>}
      {!receivers.data.length && (
        <Missing title="No receiver is declared">The keys receivers and routes of the workspace file say who is told of which alerts.</Missing>
      )}
      {name !== undefined && !shown.length && (
        <Message variant="warning" isInline title="The workspace file declares no receiver of this name." />
      )}
      {shown.length > 0 && <ReceiverTable receivers={shown} reload={receivers.reload} />}
      {receivers.data.length > 0 && (
        <Card isCompact className="apart">
          <CardTitle component="h2">Messages</CardTitle>
          <CardBody>
            <MessageTable receiver={name} interval={INTERVAL} />
          </CardBody>
        </Card>
      )}
    </PageSection>
  );
}

function ReceiverTable({ receivers, reload }: { receivers: ReceiverStatus[]; reload: () => void }) {
  const isOperator = useIsOperator();
  const [effect, setEffect] = useState<{ title: string; variant: "info" | "success" | "danger" } | null>(null);
  async function test(receiver: string): Promise<void> {
    setEffect({ title: `Sending a test message to ${receiver} …`, variant: "info" });
    try {
      const { error } = await post<ReceiverTest>(`/receivers/${encodeURIComponent(receiver)}/test`, {});
      setEffect(
        error === null
          ? { title: `Receiver ${receiver} has taken a test message.`, variant: "success" }
          : { title: `Receiver ${receiver}: ${error}`, variant: "danger" },
      );
    } catch (error) {
      setEffect({ title: describeProblem("Test", error), variant: "danger" });
    }
    reload();
  }
  return (
    <>
      <div role="status">{effect && <Message isInline variant={effect.variant} title={effect.title} />}</div>
      <DataTable
        label="Receivers"
        columns={COLUMNS}
        rows={receivers.map((entry) => [
          <Link key="name" to={`/receivers/${encodeURIComponent(entry.receiver)}`}>
            {entry.receiver}
          </Link>,
          entry.channel,
          <span key="state">
            <Label isCompact color={entry.failing_since || entry.test_error ? "red" : "green"}>
              {entry.failing_since ? "failing" : entry.test_error ? "test failed" : "ok"}
            </Label>
            {entry.failing_since && (
              <>
                {" "}
                since <Time value={entry.failing_since} brief />
              </>
            )}
            {entry.unread_since && (
              <>
                {" "}
                <Label isCompact color="orange">
                  acknowledgements unread
                </Label>{" "}
                since <Time value={entry.unread_since} brief />
              </>
            )}
          </span>,
          entry.delivered_at ? <Time key="delivered" value={entry.delivered_at} brief /> : "none",
          entry.pending,
          entry.failed,
          <LongText key="error" text={entry.error ?? entry.unread_error ?? entry.test_error ?? ""} />,
          isOperator ? (
            <Button key="test" size="sm" variant="secondary" onClick={() => void test(entry.receiver)}>
              Send a test message
            </Button>
          ) : (
            ""
          ),
        ])}
      />
    </>
  );
}
