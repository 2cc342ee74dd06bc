// What an operator decides about an incident.

import { Alert as Message, AlertActionCloseButton, Button, Form, FormGroup, Modal, ModalBody, ModalHeader, TextArea, TextInput } from "./library";
import { type FormEvent, useState } from "react";
import { useNavigate } from "react-router";
import { type IncidentDetails, type IncidentPage, type PastIncident, describeProblem, get, post } from "../api";
import { useLoaded } from "../load";
import { formatMinute } from "../time";
import { NoteDialog } from "./actions";
import { FormFooter, formatCount } from "./common";
import { describeRules } from "./incident";

const CANDIDATES = 50; // incidents that are offered for a merge

type Decision = "confirm" | "split" | "merge";

const DIALOGS: Record<Decision, { title: string; hint: string; button: string }> = {
  confirm: { title: "Confirm the incident", hint: "These alerts are of one failure.", button: "Confirm" },
  split: {
    title: "Split off alerts",
    hint: "They become an incident of their own. Later alerts of these rules and keys stay apart, too.",
    button: "Split",
  },
  merge: {
    title: "Merge another incident into this one",
    hint: "Later alerts of these rules and keys that are near in time come together, too.",
    button: "Merge",
  },
};

interface Props {
  incident: IncidentDetails;
  /** IDs of the alerts that are selected. */
  selected: ReadonlySet<string>;
  similar: readonly PastIncident[];
  changed: () => void;
}

export function IncidentActions({ incident, selected, similar, changed }: Props) {
  const [dialog, setDialog] = useState<Decision | "resolve" | null>(null);
  const [done, setDone] = useState("");
  const navigate = useNavigate();
  const rest = incident.members.length - selected.size;
  const tags = [...new Set(similar.flatMap(({ fixes }) => fixes.flatMap(({ tag }) => tag ?? [])))];

  function finish(text: string): void {
    setDialog(null);
    setDone(text);
    changed();
  }

  async function decide(decision: Decision, text: string, other: string): Promise<void> {
    const path = `/incidents/${incident.id}/${decision}`;
    if (decision === "split") {
      const parted = await post<IncidentDetails>(path, { alerts: [...selected], text });
      finish("");
      await navigate(`/incidents/${parted.id}`);
    } else if (decision === "merge") {
      const merged = await post<IncidentDetails>(path, { others: [other], text });
      finish(`Merged: ${formatCount(merged.alerts, "alert")} now.`);
    } else {
      await post(path, { text });
      finish("Confirmed.");
    }
  }

  async function resolve(body: unknown): Promise<void> {
    await post(`/incidents/${incident.id}/resolve`, body);
    finish("The resolution of all alerts is stored. It is shown with similar alerts and incidents from now on.");
  }

  return (
    <div className="actions">
      <Button onClick={() => setDialog("confirm")} variant={incident.state === "confirmed" ? "secondary" : "primary"}>
        Confirm
      </Button>
      <Button
        variant="secondary"
        isAriaDisabled={!selected.size || !rest}
        aria-describedby={!selected.size || !rest ? "split-reason" : undefined}
        onClick={() => setDialog("split")}
      >
        {selected.size ? `Split off ${formatCount(selected.size, "alert")}` : "Split"}
      </Button>
      <Button variant="secondary" onClick={() => setDialog("merge")}>
        Merge
      </Button>
      <Button variant="secondary" onClick={() => setDialog("resolve")}>
        Resolve
      </Button>
      <p id="split-reason" className="note recall-reasons">
        {!selected.size && incident.members.length > 1 && "To split: select the alerts of another failure below."}
        {selected.size > 0 && !rest && "To split: leave out the alerts that remain in this incident."}
      </p>
      <div role="status" className="effect">
        {done && (
          <Message isInline isPlain variant="success" title={done} actionClose={<AlertActionCloseButton onClose={() => setDone("")} />} />
        )}
      </div>
      {dialog === "resolve" && <NoteDialog kind="resolve" tags={tags} close={() => setDialog(null)} save={resolve} />}
      {dialog !== null && dialog !== "resolve" && (
        <DecisionDialog
          decision={dialog}
          incident={incident}
          close={() => setDialog(null)}
          save={(text, other) => decide(dialog, text, other)}
        />
      )}
    </div>
  );
}

interface DialogProps {
  decision: Decision;
  incident: IncidentDetails;
  close: () => void;
  /** Stores it; fails with an `ApiError`. `other`: of a merge. */
  save: (text: string, other: string) => Promise<void>;
}

function DecisionDialog({ decision, incident, close, save }: DialogProps) {
  const [text, setText] = useState("");
  const [other, setOther] = useState("");
  const [problem, setProblem] = useState("");
  const [isSaving, setSaving] = useState(false);
  const { title, hint, button } = DIALOGS[decision];
  const isComplete = decision !== "merge" || other.trim() !== "";

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault();
    if (!isComplete || isSaving) {
      return;
    }
    setSaving(true);
    setProblem("");
    try {
      await save(text, other.trim());
    } catch (error) {
      setProblem(describeProblem(button, error));
      setSaving(false);
    }
  }

  return (
    <Modal isOpen onClose={() => isSaving || close()} variant="small" aria-labelledby="dialog-title">
      <ModalHeader title={title} labelId="dialog-title" description={hint} />
      <ModalBody>
        <Form id="decision-form" onSubmit={(event) => void submit(event)}>
          {decision === "merge" && <OtherIncident incident={incident} other={other} setOther={setOther} />}
          <FormGroup label="Comment (optional)" fieldId="comment">
            <TextArea
              id="comment"
              value={text}
              onChange={(_, value) => setText(value)}
              autoFocus={decision !== "merge"}
              maxLength={10_000}
              rows={3}
            />
          </FormGroup>
        </Form>
        <div role="alert">{problem && <Message isInline isPlain variant="danger" title={problem} />}</div>
      </ModalBody>
      <FormFooter form="decision-form" button={button} isComplete={isComplete} isSaving={isSaving} close={close} />
    </Modal>
  );
}

interface OtherProps {
  incident: IncidentDetails;
  other: string;
  setOther: (other: string) => void;
}

/** The incident whose alerts are merged: one of the newest, or any ID. */
function OtherIncident({ incident, other, setOther }: OtherProps) {
  const page = useLoaded((signal) => get<IncidentPage>("/incidents", { limit: CANDIDATES }, signal), []);
  const candidates = page.data?.incidents.filter(({ id }) => id !== incident.id) ?? [];
  return (
    <FormGroup label="ID of the other incident, or of an alert in it" fieldId="other" isRequired>
      <TextInput id="other" value={other} onChange={(_, value) => setOther(value)} maxLength={100} list="incidents" autoFocus />
      <datalist id="incidents">
        {candidates.map(({ id, rules, alerts, starts_at }) => (
          <option key={id} value={id}>
            {describeRules(rules)}, {formatCount(alerts, "alert")}, {formatMinute(starts_at)}
          </option>
        ))}
      </datalist>
    </FormGroup>
  );
}
