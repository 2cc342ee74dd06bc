// What an operator does about an alert and its recalls, each with its effect.

import {
  Alert as Message,
  AlertActionCloseButton,
  Button,
  Form,
  FormGroup,
  FormSelect,
  FormSelectOption,
  Modal,
  ModalBody,
  ModalFooter,
  ModalHeader,
  TextArea,
  TextInput,
} from "./library";
import { type FormEvent, useRef, useState } from "react";
import { Link } from "react-router";
import { type AlertDetails, type Answer, type Command, type Verb, describeProblem, get, post } from "../api";
import { type Remedy, findSimilar, isOpen, listTags } from "../answers";
import { useKeys } from "../keys";
import { formatAbout, formatDuration } from "../time";
import { FormFooter, formatCount } from "./common";
import { type ResolutionDetails, ResolutionFields } from "./fixes";

const EFFECT_POLL = 400; // milliseconds
const EFFECT_TIMEOUT = 15_000; // milliseconds

const REASONS_ID = "recall-reasons";

type Dialog = "ack" | "assign" | "notes" | "checked" | "resolve";
interface Effect {
  title: string;
  variant: "info" | "success" | "danger";
}

const DIALOGS: Record<Dialog, { title: string; label: string; button: string; done: string; hint?: string }> = {
  ack: { title: "Acknowledge", label: "Note (optional)", button: "Acknowledge", done: "Acknowledged." },
  assign: { title: "Assign", label: "Note (optional)", button: "Assign", done: "Assigned." },
  notes: { title: "Add a note", label: "Note", button: "Add the note", done: "The note is stored." },
  checked: {
    title: "Record a checked step",
    label: "What it showed (optional)",
    button: "Record the step",
    hint: "Similar alerts in the future show what was checked, whether it helped or not.",
    done: "The step is stored. It is shown with similar alerts from now on.",
  },
  resolve: {
    title: "Resolve",
    label: "What fixed it",
    button: "Record the resolution",
    hint: "The alert itself ends when its condition no longer holds. A later resolution takes the place of an earlier one.",
    done: "The resolution is stored. It is shown with similar alerts from now on.",
  },
};
const OUTCOMES = { open: "says nothing yet", "ruled out": "rules it out", confirmed: "confirms it" };
type Outcome = keyof typeof OUTCOMES;
const VERBS: Record<Verb, { title: string; hint: string }> = {
  accelerate: { title: "Accelerate", hint: "Give the recalls of this alert more of the worker" },
  refine: { title: "Refine", hint: "Resume recalls that wait for feedback" },
  finalize: { title: "Finalize", hint: "End the recalls, keep the answers" },
  cancel: { title: "Cancel", hint: "End the recalls, discard the answers" },
};

/** Why buttons of recalls do nothing now: by its verb, and in words for all of them. */
function findReasons(answers: readonly Answer[], noRecall: string): { disabled: ReadonlySet<Verb>; text: string } {
  const all = Object.keys(VERBS) as Verb[];
  if (!answers.length) {
    return { disabled: new Set(all), text: noRecall };
  }
  if (!answers.some(isOpen)) {
    return { disabled: new Set(all), text: "No recall is running: nothing to accelerate, refine, finalize or cancel." };
  }
  if (!answers.some((answer) => answer.state === "suspended")) {
    return { disabled: new Set<Verb>(["refine"]), text: "Refine: no recall waits for feedback." };
  }
  return { disabled: new Set(), text: "" };
}

interface Props {
  alert: AlertDetails;
  answers: Answer[];
  /** Why there are no answers. */
  noRecall: string;
  reload: () => void;
}

export function AlertActions({ alert, answers, noRecall, reload }: Props) {
  const [dialog, setDialog] = useState<Dialog | null>(null);
  const [effect, setEffect] = useState<Effect | null>(null);
  const [isCancelling, setCancelling] = useState(false);
  const newest = useRef(0); // number of the last action; the effects of earlier ones are not shown any more
  const { disabled, text: reasons } = findReasons(answers, noRecall);

  async function submit(verb: Verb): Promise<void> {
    const { title } = VERBS[verb];
    const number = ++newest.current;
    const show = (shown: Effect) => number === newest.current && setEffect(shown);
    show({ title: `${title}: waiting for a recall process …`, variant: "info" });
    try {
      show({ title: `${title}: ${await submitCommand(verb, alert.eid)}`, variant: "success" });
    } catch (error) {
      show({ title: describeProblem(title, error), variant: "danger" });
    }
    reload();
  }

  /** Store what a dialog collects. The dialog stays open if that fails: its text is not lost. */
  async function save(kind: Dialog, body: unknown): Promise<void> {
    await post(`/alerts/${alert.id}/${kind}`, body);
    newest.current += 1;
    setDialog(null);
    setEffect({ title: DIALOGS[kind].done, variant: "success" });
    reload();
  }

  function press(verb: Verb): void {
    if (disabled.has(verb)) {
      return;
    }
    if (verb === "cancel") {
      setCancelling(true);
    } else {
      void submit(verb);
    }
  }

  useKeys({
    a: () => setDialog("ack"),
    s: () => setDialog("assign"),
    n: () => setDialog("notes"),
    d: () => setDialog("checked"),
    r: () => setDialog("resolve"),
    x: () => press("accelerate"),
    f: () => press("finalize"),
    e: () => press("refine"),
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
      <Button variant="secondary" onClick={() => setDialog("checked")}>
        Checked
      </Button>
      <Button variant="secondary" onClick={() => setDialog("resolve")}>
        Resolve
      </Button>
      {!alert.ends_at && (
        <Button variant="secondary" component={(props) => <Link {...props} to={`/silences?alert=${alert.id}`} />}>
          Silence
        </Button>
      )}
      <span className="recall-actions" role="group" aria-label="Recalls">
        <span className="note recall-name">Recalls:</span>
        {(Object.keys(VERBS) as Verb[]).map((verb) => (
          <Button
            key={verb}
            variant="tertiary"
            title={VERBS[verb].hint}
            isAriaDisabled={disabled.has(verb)}
            aria-describedby={disabled.has(verb) ? REASONS_ID : undefined}
            onClick={() => press(verb)}
          >
            {VERBS[verb].title}
          </Button>
        ))}
      </span>
      <p id={REASONS_ID} className="note recall-reasons">
        {reasons}
      </p>
      <div role="status" className="effect">
        {effect && (
          <Message
            isInline
            isPlain
            variant={effect.variant}
            title={effect.title}
            actionClose={<AlertActionCloseButton onClose={() => setEffect(null)} />}
          />
        )}
      </div>
      {dialog && (
        <NoteDialog
          kind={dialog}
          tags={listTags(findSimilar(answers))}
          present={dialog === "resolve" ? alert.notes.findLast((note) => note.kind === "resolution") : undefined}
          close={() => setDialog(null)}
          save={(body) => save(dialog, body)}
        />
      )}
      {isCancelling && (
        <CancelDialog
          close={() => setCancelling(false)}
          confirm={() => {
            setCancelling(false);
            void submit("cancel");
          }}
        />
      )}
    </div>
  );
}

/** Answers are discarded for good, so that is asked first. */
function CancelDialog({ close, confirm }: { close: () => void; confirm: () => void }) {
  return (
    <Modal isOpen onClose={close} variant="small" aria-labelledby="cancel-title">
      <ModalHeader title="Cancel the recalls?" labelId="cancel-title" />
      <ModalBody>Their answers are discarded, and with them what this page says about the past. Finalize keeps them.</ModalBody>
      <ModalFooter>
        <Button variant="danger" onClick={confirm}>
          Discard the answers
        </Button>
        <Button variant="link" onClick={close} autoFocus>
          Keep reading
        </Button>
      </ModalFooter>
    </Modal>
  );
}

interface NoteProps {
  kind: Dialog;
  /** Tags that a resolution may have. */
  tags: string[];
  /** The resolution that is changed, if there is one. */
  present?: Remedy;
  close: () => void;
  /** Stores it; fails with an `ApiError`. */
  save: (body: unknown) => Promise<void>;
}

export function NoteDialog({ kind, tags, present, close, save }: NoteProps) {
  const [text, setText] = useState(present?.text ?? "");
  const [problem, setProblem] = useState("");
  const [isSaving, setSaving] = useState(false);
  const [detail, setDetail] = useState(present?.tag ?? "");
  const [outcome, setOutcome] = useState<Outcome>("open");
  const [resolution, setResolution] = useState<ResolutionDetails>({
    effect: (present?.effect as ResolutionDetails["effect"] | null | undefined) ?? "",
    supersededBy: present?.superseded_by ?? "",
    link: present?.link ?? "",
  });
  const { title, label, button, hint } = DIALOGS[kind];
  const shownTitle = present ? "Change the resolution" : title;
  const isTextRequired = kind === "notes" || kind === "resolve";
  const isDetailRequired = kind === "assign" || kind === "checked";
  const isSuperseded = kind === "resolve" && resolution.effect === "superseded";
  const isComplete =
    (!isTextRequired || text.trim()) && (!isDetailRequired || detail.trim()) && (!isSuperseded || resolution.supersededBy.trim());

  function makeBody(): unknown {
    if (kind === "assign") {
      return { text, assignee: detail.trim() };
    }
    if (kind === "checked") {
      return { step: detail.trim(), result: text, outcome };
    }
    if (kind === "resolve") {
      const { effect, supersededBy, link } = resolution;
      const superseding = isSuperseded ? supersededBy.trim() : null;
      return { text, tag: detail.trim() || null, effect: effect || null, superseded_by: superseding, link: link.trim() || null };
    }
    return { text };
  }

  async function submit(event: FormEvent): Promise<void> {
    event.preventDefault();
    if (!isComplete || isSaving) {
      return;
    }
    setSaving(true);
    setProblem("");
    try {
      await save(makeBody());
    } catch (error) {
      setProblem(describeProblem(title, error));
      setSaving(false);
    }
  }

  return (
    // What is being saved cannot be taken back: the dialog stays until it is known whether it is stored.
    <Modal isOpen onClose={() => isSaving || close()} variant="small" aria-labelledby="dialog-title">
      <ModalHeader title={shownTitle} labelId="dialog-title" description={hint} />
      <ModalBody>
        <Form id="note-form" onSubmit={(event) => void submit(event)}>
          {kind === "assign" && (
            <FormGroup label="Person or team" fieldId="assignee" isRequired>
              <TextInput id="assignee" value={detail} onChange={(_, value) => setDetail(value)} autoFocus maxLength={200} />
            </FormGroup>
          )}
          {kind === "checked" && (
            <FormGroup label="Step: a query or command" fieldId="step" isRequired>
              <TextInput id="step" value={detail} onChange={(_, value) => setDetail(value)} autoFocus maxLength={2_000} />
            </FormGroup>
          )}
          <FormGroup label={label} fieldId="text" isRequired={isTextRequired}>
            <TextArea
              id="text"
              value={text}
              onChange={(_, value) => setText(value)}
              autoFocus={!isDetailRequired}
              maxLength={10_000}
              rows={4}
            />
          </FormGroup>
          {kind === "checked" && (
            <FormGroup label="About the suspicion" fieldId="outcome">
              <FormSelect id="outcome" value={outcome} onChange={(_, value) => setOutcome(value as Outcome)}>
                {Object.entries(OUTCOMES).map(([value, name]) => (
                  <FormSelectOption key={value} value={value} label={name} />
                ))}
              </FormSelect>
            </FormGroup>
          )}
          {kind === "resolve" && (
            <FormGroup label="Tag (optional)" fieldId="tag">
              <TextInput
                id="tag"
                value={detail}
                onChange={(_, value) => setDetail(value)}
                maxLength={200}
                list="tags"
                aria-describedby="tag-hint"
              />
              <datalist id="tags">
                {tags.map((tag) => (
                  <option key={tag} value={tag} />
                ))}
              </datalist>
              <p id="tag-hint" className="note">
                Groups resolutions of the same cause, for example restart.
              </p>
            </FormGroup>
          )}
          {kind === "resolve" && <ResolutionFields details={resolution} change={setResolution} />}
        </Form>
        <div role="alert">{problem && <Message isInline isPlain variant="danger" title={problem} />}</div>
      </ModalBody>
      <FormFooter form="note-form" button={button} isComplete={Boolean(isComplete)} isSaving={isSaving} close={close} />
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
  return describeEffect(command);
}

/** ` instead of 2 min`, or that nothing is gained. */
function describeGain(before: number | null, after: number): string {
  if (before === null) {
    return "";
  }
  const text = formatDuration(before * 1_000);
  return text === formatDuration(after * 1_000) ? ", no sooner than before" : ` instead of ${text}`;
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
    parts.push(`complete in ${formatAbout(effect.seconds_after * 1_000)}${describeGain(effect.seconds_before, effect.seconds_after)}`);
  }
  if (effect.chunks_left) {
    parts.push(`${formatCount(effect.chunks_left, "chunk")} unread`);
  }
  return `${parts.join(", ")}.`;
}
