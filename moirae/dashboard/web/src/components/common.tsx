// Small parts that several pages use.

import { Alert as Message, Button, EmptyState, EmptyStateBody, Label, ModalFooter, Skeleton } from "./library";
import { type ReactNode, useEffect, useSyncExternalStore } from "react";
import { Link } from "react-router";
import type { Alert } from "../api";
import { cutText } from "./text";
import { formatAge, formatTime } from "../time";

const RESOLUTION_LENGTH = 80; // characters that are shown in a list or below a title
const CLOCK_INTERVAL = 2_000; // milliseconds

function watchClock(notify: () => void): () => void {
  const timer = window.setInterval(notify, CLOCK_INTERVAL);
  return () => window.clearInterval(timer);
}

/** A time with its age: `2026-11-23 08:33:30 UTC (5 min ago)`. */
export function Time({ value, brief = false }: { value: string | number; brief?: boolean }) {
  // Drawn again only if the text changes: every few seconds in the first minute.
  const age = useSyncExternalStore(watchClock, () => formatAge(value, Date.now()));
  return (
    <time dateTime={new Date(value).toISOString()} title={formatTime(value)}>
      {brief ? age : `${formatTime(value)} (${age})`}
    </time>
  );
}

/** A similarity from 0 to 1. `title`: of what. */
export function Score({ score, title }: { score: number; title: string }) {
  return (
    <span className="score" title={title}>
      {score.toFixed(2)}
      <span className="score-name">similarity</span>
      <meter min={0} max={1} value={score} aria-label={`Score ${score.toFixed(2)}`} />
    </span>
  );
}

interface FooterProps {
  /** ID of the form that is submitted. */
  form: string;
  button: string;
  isComplete: boolean;
  isSaving: boolean;
  close: () => void;
}

/** The buttons of a dialog with a form. */
export function FormFooter({ form, button, isComplete, isSaving, close }: FooterProps) {
  return (
    <ModalFooter>
      <Button type="submit" form={form} isDisabled={!isComplete || isSaving}>
        {button}
      </Button>
      <Button variant="link" onClick={close} isDisabled={isSaving}>
        Close
      </Button>
    </ModalFooter>
  );
}

const STATE_HINTS: Record<string, string> = {
  provisional: "Fresh: rows that may still arrive can change or withdraw it",
  pending: "Not yet for long enough to fire",
  waiting: "Not started yet",
  deferred: "Continues once other recalls have a first answer",
  suspended: "Waits for feedback: Refine resumes it",
  present: "Still receives rows",
  recent: "Complete; late rows may still be added",
  old: "Complete; kept until it expires",
  expired: "Its rows are deleted",
};

export function StateLabel({ state }: { state: string }) {
  const colors: Record<string, "red" | "green" | "orange" | "grey" | "blue"> = {
    firing: "red",
    failed: "red",
    quarantined: "red",
    provisional: "orange",
    pending: "orange",
    suspended: "orange",
    resolved: "green",
    done: "green",
    running: "blue",
    recent: "blue",
    present: "green",
  };
  return (
    <Label color={colors[state] ?? "grey"} isCompact>
      <span title={STATE_HINTS[state]}>{state}</span>
    </Label>
  );
}

const HISTORY_TEXTS: Record<string, { text: string; color: "blue" | "green" | "grey"; hint: string }> = {
  waiting: { text: "waiting for its history", color: "blue", hint: "The rule's condition waits for answers of recalls" },
  kept: { text: "kept by its history", color: "green", hint: "The rule's condition holds" },
  withdrawn: { text: "withdrawn by its history", color: "grey", hint: "The rule's condition does not hold" },
  no_history: { text: "no history", color: "grey", hint: "No answer to decide by: the alert is kept" },
};

/** What history has decided about an alert, if its rule has a condition. */
export function HistoryLabel({ history }: { history: string | null | undefined }) {
  const entry = history ? HISTORY_TEXTS[history] : undefined;
  if (!entry) {
    return null;
  }
  return (
    <Label isCompact variant="outline" color={entry.color}>
      <span title={entry.hint}>{entry.text}</span>
    </Label>
  );
}

export function SeverityLabel({ alert }: { alert: Pick<Alert, "labels"> }) {
  const severity = alert.labels.severity;
  if (!severity) {
    return null;
  }
  const isUrgent = ["page", "critical", "error"].includes(severity);
  return (
    <Label color={isUrgent ? "red" : "orange"} isCompact variant="filled">
      {severity}
    </Label>
  );
}

/** The address of a page of an alert or event. */
export function AlertLink({ id, children }: { id: string; children: ReactNode }) {
  return (
    <Link to={`/alerts/${id}`} className="entry">
      {children}
    </Link>
  );
}

/** The summary of an alert, else its key; it may be long. */
export function alertTitle(alert: Pick<Alert, "annotations" | "key" | "rule">): string {
  return alert.annotations.summary || `${shortName(alert.rule)} ${describeKey(alert.key)}`;
}

export function describeKey(key: Record<string, unknown>): string {
  return Object.entries(key)
    .map(([name, value]) => `${name}=${formatValue(value)}`)
    .join(", ");
}

/** The name of a rule without its group. */
export function shortName(rule: string): string {
  return rule.slice(rule.indexOf("/") + 1);
}

/** The beginning of a resolution. */
export function shorten(text: string): string {
  return cutText(text, RESOLUTION_LENGTH);
}

/** A value of a row: numbers with four significant digits. */
export function formatValue(value: unknown): string {
  if (typeof value === "number") {
    return Number.isInteger(value) ? String(value) : String(Number(value.toPrecision(4)));
  }
  if (value === null || value === undefined) {
    return "–";
  }
  return typeof value === "object" ? JSON.stringify(value) : String(value);
}

/** A value with three significant digits, to be taken in at a glance. */
export function formatShort(value: number): string {
  return String(Number(value.toPrecision(3)));
}

export function formatCount(count: number, noun: string): string {
  return `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
}

/** The error of loading, or a placeholder until data is there. */
export function Pending({ error, lines = 4 }: { error: string | null; lines?: number }) {
  if (error !== null) {
    return <Message variant="danger" isInline title={error} />;
  }
  return (
    <div aria-busy="true">
      {Array.from({ length: lines }, (_, index) => (
        <Skeleton key={index} className="line" screenreaderText={index ? undefined : "Loading"} />
      ))}
    </div>
  );
}

/** Said in place of something that the server does not have. */
export function Missing({ title, children }: { title: string; children: ReactNode }) {
  return (
    <EmptyState titleText={title} headingLevel="h1">
      <EmptyStateBody>
        <p>{children}</p>
        <p>
          Firing alerts are on the page <Link to="/">Now</Link>, past ones on the page <Link to="/history">History</Link>.
        </p>
      </EmptyStateBody>
    </EmptyState>
  );
}

/** Set the title of the window. */
export function useTitle(title: string): void {
  useEffect(() => {
    document.title = title ? `${cutText(title)} – Moirae` : "Moirae";
  }, [title]);
}

/** An http address as a link; other text as text. */
export function SafeLink({ url, children }: { url: string; children: ReactNode }) {
  if (!/^https?:\/\//i.test(url)) {
    return <>{url}</>;
  }
  return (
    <a href={url} target="_blank" rel="noopener noreferrer">
      {children}
    </a>
  );
}
