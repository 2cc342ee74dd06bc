// What an operator does about an alert and its recalls, each with its effect.

import {
  Alert as Message,
  AlertActionCloseButton,
  Button,
  Form,
  FormGroup,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  TextArea,
  TextInput,
} from "./library";
import { type FormEvent, useState } from "react";
import { type Alert, type Answer, type Command, type Verb, get, post } from "../api";
import { isOpen } from "../answers";
import { useKeys } from "../keys";
import { formatDuration } from "../time";
import { formatCount } from "./common";

const EFFECT_POLL = 400; // milliseconds
const EFFECT_TIMEOUT = 15_000; // milliseconds

type Dialog = "ack" | "assign" | "notes" | "resolve";
interface Effect {
  title: string;
  isError: boolean;
}

const DIALOGS: Record<Dialog, { title: string; label: string; button: string; done: string }> = {
  ack: { title: "Acknowledge", label: "Note (optional)", button: "Acknowledge", done: "Acknowledged." },
  assign: { title: "Assign", label: "Note (optional)", button: "Assign", done: "Assigned." },
  notes: { title: "Add a note", label: "Note", button: "Add the note", done: "The note is stored." },
  resolve: {
    title: "Resolve",
    label: "What fixed it",
    button: "Record the resolution",
    done: "The resolution is stored. It is shown with similar alerts from now on.",
  },
};
const VERBS: Record<Verb, { title: string; hint: string }> = {
  accelerate: { title: "Accelerate", hint: "Give the recalls of this alert more of the worker" },
  refine: { title: "Refine", hint: "Resume recalls that wait for feedback" },
  finalize: { title: "Finalize", hint: "End the recalls, keep the answers" },
  cancel: { title: "Cancel", hint: "End the recalls, discard the answers" },
};

export function AlertActions({ alert, answers, reload }: { alert: Alert; answers: Answer[]; reload: () => void }) {
  const [dialog, setDialog] = useState<Dialog | null>(null);
  const [effect, setEffect] = useState<Effect | null>(null);
  const hasOpen = answers.some(isOpen);
  const hasSuspended = answers.some((answer) => answer.state === "suspended");

  async function run(action: () => Promise<string>): Promise<void> {
    try {
      setEffect({ title: await action(), isError: false });
    } catch (error) {
      setEffect({ title: (error as Error).message, isError: true });
    }
    reload();
  }

  function submit(verb: Verb): void {
    setEffect({ title: `${VERBS[verb].title}: waiting for a recall process …`, isError: false });
    void run(() => submitCommand(verb, alert.eid));
  }

  useKeys({
    a: () => setDialog("ack"),
    s: () => setDialog("assign"),
    n: () => setDialog("notes"),
    r: () => setDialog("resolve"),
    ...(hasOpen && { x: () => submit("accelerate"), f: () => submit("finalize") }),
    ...(hasSuspended && { e: () => submit("refine") }),
  });
  return (
    <div className="actions">
      <Button onClick={() => setDialog("ack")} variant={alert.acknowledged_by ? "secondary" : "primary"}>
        Acknowledge
      </Button>
      <Button variant="secondary" onClick={() => setDialog("assign")}>
        Assign
      </Button>
      <Button variant="secondary" onClick={() => setDialog("notes")}>
        Note
      </Button>
      <Button variant="secondary" onClick={() => setDialog("resolve")}>
        Resolve
      </Button>
      <span className="recall-actions" role="group" aria-label="Recalls">
        <span className="note">Recalls:</span>
        {(Object.keys(VERBS) as Verb[]).map((verb) => (
        <Button
          key={verb}
          variant="tertiary"
          isDanger={verb === "cancel"}
          title={VERBS[verb].hint}
          isDisabled={verb === "refine" ? !hasSuspended : !hasOpen}
          onClick={() => submit(verb)}
        >
          {VERBS[verb].title}
        </Button>
        ))}
      </span>
      <div role="status" className="effect">
        {effect && (
          <Message
            isInline
            isPlain
            variant={effect.isError ? "danger" : "success"}
            title={effect.title}
            actionClose={<AlertActionCloseButton onClose={() => setEffect(null)} />}
          />
        )}
      </div>
      {dialog && (
        <NoteDialog
          kind={dialog}
          close={() => setDialog(null)}
          save={(body) => {
            setDialog(null);
            void run(async () => {
              await post(`/alerts/${alert.id}/${dialog}`, body);
              return DIALOGS[dialog].done;
            });
          }}
        />
      )}
    </div>
  );
}

function NoteDialog({ kind, close, save }: { kind: Dialog; close: () => void; save: (body: unknown) => void }) {
  const [text, setText] = useState("");
  const [detail, setDetail] = useState("");
  const { title, label, button } = DIALOGS[kind];
  const isTextRequired = kind === "notes" || kind === "resolve";
  const isComplete = (!isTextRequired || text.trim()) && (kind !== "assign" || detail.trim());

  function submit(event: FormEvent): void {
    event.preventDefault();
    if (!isComplete) {
      return;
    }
    if (kind === "assign") {
      save({ text, assignee: detail.trim() });
    } else if (kind === "resolve") {
      save({ text, tag: detail.trim() || null });
    } else {
      save({ text });
    }
  }

  return (
    <Modal isOpen onClose={close} variant="small" aria-labelledby="dialog-title">
      <ModalHeader title={title} labelId="dialog-title" />
      <ModalBody>
        <Form id="note-form" onSubmit={submit}>
          {kind === "assign" && (
            <FormGroup label="Person or team" fieldId="assignee" isRequired>
              <TextInput id="assignee" value={detail} onChange={(_, value) => setDetail(value)} autoFocus maxLength={200} />
            </FormGroup>
          )}
          <FormGroup label={label} fieldId="text" isRequired={isTextRequired}>
            <TextArea
              id="text"
              value={text}
              onChange={(_, value) => setText(value)}
              autoFocus={kind !== "assign"}
              maxLength={10_000}
              rows={4}
            />
          </FormGroup>
          {kind === "resolve" && (
            <FormGroup label="Kind of incident in one word (optional)" fieldId="tag">
              <TextInput id="tag" value={detail} onChange={(_, value) => setDetail(value)} maxLength={200} />
            </FormGroup>
          )}
        </Form>
      </ModalBody>
      <ModalFooter>
        <Button type="submit" form="note-form" isDisabled={!isComplete}>
          {button}
        </Button>
        <Button variant="link" onClick={close}>
          Close
        </Button>
      </ModalFooter>
    </Modal>
  );
}

/** Submit a command on the recalls of an event and wait for its effect. */
async function submitCommand(verb: Verb, eid: string): Promise<string> {
  let command = await post<Command>("/commands", { command: verb, id: eid });
  const deadline = Date.now() + EFFECT_TIMEOUT;
  while (command.effect === null && Date.now() < deadline) {
    await new Promise((resolve) => setTimeout(resolve, EFFECT_POLL));
    command = await get<Command>(`/commands/${command.number}`);
  }
  return `${VERBS[verb].title}: ${describeEffect(command)}`;
}

function describeEffect(command: Command): string {
  const { effect } = command;
  if (effect === null) {
    return "queued. It takes effect once a recall process runs.";
  }
  if (!effect.recalls) {
    return "no recall was open any more.";
  }
  const parts = [formatCount(effect.recalls, "recall")];
  if (command.command === "accelerate" && effect.seconds_after !== null) {
    const before = effect.seconds_before === null ? "" : ` instead of ${formatDuration(effect.seconds_before * 1_000)}`;
    parts.push(`complete in about ${formatDuration(effect.seconds_after * 1_000)}${before}`);
  }
  if (effect.chunks_left) {
    parts.push(`${formatCount(effect.chunks_left, "chunk")} unread`);
  }
  return `${parts.join(", ")}.`;
}
