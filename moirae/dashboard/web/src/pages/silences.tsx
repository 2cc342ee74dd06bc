import { Alert as Message, Button, Card, CardBody, CardTitle, Form, FormGroup, FormSelect, FormSelectOption, PageSection, Switch, TextArea, TextInput, Title } from "../components/library";
import { type FormEvent, useState } from "react";
import { Link, useSearchParams } from "react-router";
import { type AlertDetails, type Silence, type SilencePreview, describeProblem, get, post, remove } from "../api";
import { Pending, StateLabel, Time, formatCount, useTitle } from "../components/common";
import { DataTable } from "../components/rows";
import { LongText } from "../components/text";
import { useLoaded } from "../load";
import { useIsOperator } from "../session";

const INTERVAL = 5_000; // milliseconds
const HOUR = 3_600_000; // milliseconds
const SHOWN_ALERTS = 10; // of a preview
const COLUMNS = ["State", "Conditions", "Author", "Comment", "Starts", "Ends", "Windows", ""];
const LENGTHS = [
  [1, "1 hour"],
  [2, "2 hours"],
  [8, "8 hours"],
  [24, "1 day"],
  [7 * 24, "7 days"],
  [90 * 24, "90 days"],
] as const;

export function SilencesPage() {
  useTitle("Silences");
  const isOperator = useIsOperator();
  const only = useSearchParams()[0].get("silence");
  const [isHistoryShown, setHistoryShown] = useState(false);
  const withExpired = isHistoryShown || only !== null;
  const silences = useLoaded(
    (signal) => get<Silence[]>("/silences", { expired: withExpired }, signal),
    [withExpired],
    INTERVAL,
  );
  const shown = silences.data?.filter(({ id }) => only === null || id === only);
  const [problem, setProblem] = useState("");
  async function expire(silence: Silence): Promise<void> {
    setProblem("");
    try {
      await remove(`/silences/${silence.id}`);
    } catch (error) {
      setProblem(describeProblem("Expire", error));
    }
    silences.reload();
  }
  return (
    <PageSection>
      <Title headingLevel="h1">Silences</Title>
      <p className="note">Silences hold back messages. Alerts and their history are unaffected.</p>
      {only !== null && <Link to="/silences">All silences</Link>}
      {isOperator && only === null && <SilenceForm reload={silences.reload} />}
      {only === null && (
        <Switch id="expired" label="Also those that have ended" isChecked={isHistoryShown} onChange={(_, checked) => setHistoryShown(checked)} />
      )}
      <div role="alert">{problem && <Message isInline variant="danger" title={problem} />}</div>
      {silences.data === null && <Pending error={silences.error} />}
      {shown && !shown.length && <p className="note">No silence.</p>}
      {shown && shown.length > 0 && (
        <DataTable
          label="Silences"
          columns={COLUMNS}
          rows={shown.map((silence) => [
            <StateLabel key="state" state={silence.state} />,
            <code key="conditions">{silence.matchers.join(" ")}</code>,
            silence.author,
            <LongText key="comment" text={silence.comment} />,
            <Time key="starts" value={silence.starts_at} brief />,
            <Time key="ends" value={silence.ends_at} brief />,
            silence.schedule ? `${silence.schedule.cron} for ${silence.schedule.duration} (${silence.schedule.zone})` : "",
            isOperator && silence.state !== "expired" ? (
              <Button key="expire" size="sm" variant="link" onClick={() => void expire(silence)}>
                Expire
              </Button>
            ) : (
              ""
            ),
          ])}
        />
      )}
    </PageSection>
  );
}

function formatConditions({ labels, key }: AlertDetails): string {
  const conditions = Object.entries({ ...labels, ...key });
  return conditions.map(([name, value]) => `${name}="${value ?? ""}"`).join(" ");
}

/** Adds a silence, of an alert if the address names one. */
function SilenceForm({ reload }: { reload: () => void }) {
  const [parameters, setParameters] = useSearchParams();
  const alert = parameters.get("alert") ?? "";
  const [conditions, setConditions] = useState("");
  const [hours, setHours] = useState(2);
  const [comment, setComment] = useState("");
  const [cron, setCron] = useState("");
  const [windowLength, setWindowLength] = useState("2h");
  const [preview, setPreview] = useState<SilencePreview | null>(null);
  const [problem, setProblem] = useState("");
  const silenced = useLoaded(
    (signal) => (alert ? get<AlertDetails>(`/alerts/${encodeURIComponent(alert)}`, {}, signal) : Promise.resolve(null)),
    [alert],
  );

  function makeBody(text: string): unknown {
    const now = Date.now();
    return {
      matchers: conditions.split("\n").map((line) => line.trim()).filter(Boolean),
      alert: alert || undefined,
      ends_at: new Date(now + hours * HOUR).toISOString(),
      comment: text,
      schedule: cron.trim() ? { cron: cron.trim(), duration: windowLength.trim() } : undefined,
    };
  }
  async function show(): Promise<void> {
    setProblem("");
    setPreview(null);
    try {
      setPreview(await post<SilencePreview>("/silences/preview", makeBody(comment || "preview")));
    } catch (error) {
      setProblem(describeProblem("Preview", error));
    }
  }
  async function add(event: FormEvent): Promise<void> {
    event.preventDefault();
    setProblem("");
    try {
      await post<Silence>("/silences", makeBody(comment));
      setConditions("");
      setComment("");
      setCron("");
      setPreview(null);
      setParameters({});
    } catch (error) {
      setProblem(describeProblem("Add", error));
    }
    reload();
  }
  return (
    <Card isCompact className="apart">
      <CardTitle component="h2">Add a silence</CardTitle>
      <CardBody>
        <Form onSubmit={(event) => void add(event)} className="silence-form">
          {alert && (
            <p>
              All labels of the alert <Link to={`/alerts/${alert}`}>{alert.slice(0, 8)}</Link> are conditions:{" "}
              {silenced.data && <code>{formatConditions(silenced.data)}</code>}{" "}
              <Button variant="link" isInline onClick={() => setParameters({})}>
                Other alerts
              </Button>
            </p>
          )}
          <FormGroup label={'Conditions on labels, one a line, such as host=~"db.*"'} fieldId="conditions" isRequired={!alert}>
            <TextArea id="conditions" value={conditions} onChange={(_, value) => setConditions(value)} isRequired={!alert} rows={2} />
          </FormGroup>
          <FormGroup label="Ends in" fieldId="hours">
            <FormSelect id="hours" value={hours} onChange={(_, value) => setHours(Number(value))}>
              {LENGTHS.map(([value, label]) => (
                <FormSelectOption key={value} value={value} label={label} />
              ))}
            </FormSelect>
          </FormGroup>
          <FormGroup label="Only in windows that start at (cron, UTC; optional)" fieldId="cron">
            <TextInput id="cron" value={cron} onChange={(_, value) => setCron(value)} placeholder="0 2 * * 6" />
          </FormGroup>
          {cron.trim() && (
            <FormGroup label="Length of a window" fieldId="window">
              <TextInput id="window" value={windowLength} onChange={(_, value) => setWindowLength(value)} />
            </FormGroup>
          )}
          <FormGroup label="Comment" fieldId="comment" isRequired>
            <TextInput id="comment" value={comment} onChange={(_, value) => setComment(value)} isRequired />
          </FormGroup>
          <div role="alert">{problem && <Message isInline variant="danger" title={problem} />}</div>
          <div className="buttons">
            <Button type="submit">Add the silence</Button>{" "}
            <Button variant="secondary" onClick={() => void show()}>
              Preview
            </Button>
          </div>
          <div role="status">{preview && <Preview preview={preview} />}</div>
        </Form>
      </CardBody>
    </Card>
  );
}

function Preview({ preview }: { preview: SilencePreview }) {
  const shown = [...preview.firing_alerts, ...preview.past_alerts].slice(0, SHOWN_ALERTS);
  const entries = new Map(shown.map((alert) => [alert.id, alert]));
  return (
    <>
      <p>
        Holds back {formatCount(preview.firing, "alert")} now; would have held back{" "}
        {preview.last_week.toLocaleString("en")} of the last seven days.
      </p>
      <ul>
        {[...entries.values()].map((alert) => (
          <li key={alert.id}>
            <Link to={`/alerts/${alert.id}`}>{alert.rule}</Link> <Time value={alert.starts_at} brief />
          </li>
        ))}
      </ul>
    </>
  );
}
