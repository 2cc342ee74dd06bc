import { Alert as Message, Button, EmptyState, EmptyStateBody, PageSection, Title } from "../components/library";
import { type FocusEvent, type PointerEvent, useEffect, useRef, useState } from "react";
import { Link } from "react-router";
import { type Alert, type AlertPage, type Answer, type EventAnswers, type HeldBackAlert, type Revision, type Status, get } from "../api";
import {
  conclude,
  coverageOf,
  coveredShare,
  describeDistance,
  describeForecast,
  findNorm,
  findSimilar,
  isOpen,
  isPartOfHistory,
  readForecast,
  readNorm,
  withRevision,
} from "../answers";
import { AlertLink, HistoryLabel, Pending, SeverityLabel, StateLabel, Time, alertTitle, formatCount, formatShort, shortName, useTitle } from "../components/common";
import { HeldBackReason, useHeldBack } from "../components/notifications";
import { LostVerdicts, ProblemSummary } from "../components/problems";
import { type LiveCondition, LiveProblem } from "../components/process";
import { cutText } from "../components/text";
import { moveFocus, useKeys } from "../keys";
import { type LiveEvent, useLive } from "../live";
import { useLoaded } from "../load";
import { findComparison, useRule } from "../rule";

const PAGE_SIZE = 50;
const MAX_PROBLEMS = 3; // of the workspace that are shown
const PROBLEM_LENGTH = 120; // characters: on a phone, alerts are on the first screen too
const STATUS_INTERVAL = 30_000; // milliseconds
const NEW_ANSWER_DELAY = 250; // milliseconds in which events without answers are collected

type Answers = ReadonlyMap<string, EventAnswers>;

export function NowPage() {
  useTitle("Now");
  const [size, setSize] = useState(PAGE_SIZE);
  const page = useLoaded(
    (signal) => get<AlertPage>("/alerts", { active: true, limit: size, count: true }, signal),
    [size],
  );
  const [answers, setAnswers] = useAnswers(page.data?.alerts ?? []);
  const [count, setCount] = useState<number | null>(null);
  const [live, setLive] = useState<LiveCondition>("running");
  const status = useLoaded((signal) => get<Status>("/status", { brief: true }, signal), [], STATUS_INTERVAL);
  const hold = useHold(page.data?.alerts ?? []);
  const heldBack = useHeldBack();

  useLive({ kinds: ["alert", "recall", "revision", "status"] }, (events) => {
    page.update((present) => applyAlerts(present, events, size));
    hold.change(events);
    setAnswers((present) => applyAnswers(present, events));
    const status = events.findLast(({ kind }) => kind === "status");
    if (status) {
      setCount(status.data.active_alerts as number);
      setLive(status.data.live as LiveCondition);
    }
    if (events.some(({ kind }) => kind === "reset")) {
      page.reload();
    }
  });
  useKeys({
    j: () => moveFocus(".alert-list .entry", 1),
    k: () => moveFocus(".alert-list .entry", -1),
  });

  if (page.data === null) {
    return (
      <PageSection>
        <Title headingLevel="h1">Now</Title>
        <Pending error={page.error} lines={6} />
      </PageSection>
    );
  }
  const { alerts } = page.data;
  const total = Math.max(count ?? page.data.total ?? 0, alerts.length);
  return (
    <PageSection>
      <div className="now-head">
        <Title headingLevel="h1">{total ? `${formatCount(total, "firing alert")}` : "Now"}</Title>
        <span role="status">
          {hold.added > 0 && (
            <Button variant="link" isInline onClick={hold.renew}>
              Show {formatCount(hold.added, "new alert")}
            </Button>
          )}
        </span>
      </div>
      {page.error && <Message variant="warning" isInline isPlain title={`Not up to date: ${page.error}`} />}
      <LiveProblem condition={live}>
        <Link to="/system">System</Link> shows the processes.
      </LiveProblem>
      {status.data && <ProblemSummary status={status.data} limit={MAX_PROBLEMS} length={PROBLEM_LENGTH} />}
      {status.data && <LostVerdicts status={status.data} />}
      {!hold.shown.length && (
        <EmptyState titleText="No alert is firing" headingLevel="h2">
          <EmptyStateBody>New alerts appear here by themselves. Past alerts are on the page History.</EmptyStateBody>
        </EmptyState>
      )}
      <ul className="alert-list" aria-label="Firing alerts, newest first" {...hold.handlers}>
        {hold.shown
          .filter(({ id }) => !heldBack.has(id))
          .map((alert) => (
            <li key={alert.id}>
              <AlertRow alert={alert} entry={answers.get(alert.eid)} />
            </li>
          ))}
      </ul>
      {hold.shown.some(({ id }) => heldBack.has(id)) && <HeldBackAlerts alerts={hold.shown} heldBack={heldBack} />}
      {alerts.length < total && (
        <Button variant="secondary" onClick={() => setSize(Math.min(1_000, size + 200))} isDisabled={size >= 1_000}>
          Show more of {total.toLocaleString("en")}
        </Button>
      )}
    </PageSection>
  );
}

/** Alerts of which nobody is told now, and why. */
function HeldBackAlerts({ alerts, heldBack }: { alerts: readonly Alert[]; heldBack: ReadonlyMap<string, HeldBackAlert> }) {
  return (
    <section aria-labelledby="held-back-title">
      <Title headingLevel="h2" id="held-back-title" size="lg">
        Silenced or inhibited: nobody is told
      </Title>
      <ul className="held-back">
        {alerts.map((alert) => {
          const entry = heldBack.get(alert.id);
          return (
            entry && (
              <li key={alert.id}>
                <SeverityLabel alert={alert} /> <Link to={`/alerts/${alert.id}`}>{cutText(alertTitle(alert))}</Link>{" "}
                <span className="note">
                  <HeldBackReason entry={entry} />
                </span>
              </li>
            )
          );
        })}
      </ul>
    </section>
  );
}

function AlertRow({ alert, entry }: { alert: Alert; entry: EventAnswers | undefined }) {
  return (
    <AlertLink id={alert.id}>
      <span className="row-what">
        <span>
          <SeverityLabel alert={alert} /> <strong>{cutText(alertTitle(alert))}</strong>{" "}
          {alert.state !== "firing" && <StateLabel state={alert.state} />} <HistoryLabel history={alert.history} />
        </span>
        <span className="note">
          {shortName(alert.rule)}, started <Time value={alert.starts_at} brief />
          {alert.acknowledged_by && `, acknowledged by ${alert.acknowledged_by}`}
          {alert.assigned_to && `, assigned to ${alert.assigned_to}`}
        </span>
      </span>
      <span className="row-norm">{entry && <NormText alert={alert} entry={entry} />}</span>
      <span className="row-past">{entry && <Past alert={alert} answers={entry.answers} />}</span>
    </AlertLink>
  );
}

function NormText({ alert, entry }: { alert: Alert; entry: EventAnswers }) {
  const definition = useRule(alert.rule, alert.version);
  const answer = findNorm(entry.answers);
  const recall = answer && definition?.recall?.[answer.recall];
  const norm = readNorm(answer?.rows?.[0], entry.attributes, recall);
  if (!norm) {
    return <>{answer && isOpen(answer) ? "Normal values: not known yet" : ""}</>;
  }
  const deviation = norm.deviation === null ? "" : `\u00a0±\u00a0${formatShort(norm.deviation)}`;
  const distance = describeDistance(norm, answer ? coverageOf(answer) : null);
  return (
    <>
      <span>
        {norm.value !== null && (
          <>
            {norm.attribute}: <strong>{formatShort(norm.value)}</strong>,{" "}
          </>
        )}
        normally {formatShort(norm.mean)}
        {deviation}
      </span>
      {distance && <span className="note">{distance}</span>}
    </>
  );
}

function Past({ alert, answers }: { alert: Alert; answers: readonly Answer[] }) {
  const similar = findSimilar(answers);
  const conclusion = conclude(similar, findComparison(alert, useRule(alert.rule, alert.version)));
  const coverage = similar ? coverageOf(similar) : null;
  const shown = conclusion.hit ?? similar?.hits?.[0];
  const forecast = readForecast(similar);
  const probable = forecast && describeForecast(forecast);
  return (
    <>
      <span className={conclusion.kind === "known" ? "past-known" : "past-open"}>
        {conclusion.kind === "known"
          ? `${conclusion.isAgreed ? "What fixed it" : "What fixed the most similar"}: ${conclusion.title}`
          : conclusion.title}
      </span>
      <span className="note">
        {probable && `${forecast.reason ? "by frequency" : "probably"} ${probable}, `}
        {shown && (
          <>
            seen <Time value={shown.ts} brief />, similarity {shown.score.toFixed(2)}
          </>
        )}
        {coverage && isPartOfHistory(coverage) && ` (${Math.round(coveredShare(coverage) * 100)} % read)`}
      </span>
    </>
  );
}

/** The answers of the recalls of alerts, by event; those that are missing are loaded. */
function useAnswers(alerts: readonly Alert[]): [Answers, (change: (present: Answers) => Answers) => void] {
  const [answers, setAnswers] = useState<Answers>(new Map());
  const missing = alerts.filter(({ eid }) => !answers.has(eid)).map(({ eid }) => eid);
  const wanted = missing.slice(0, PAGE_SIZE).join(",");
  useEffect(() => {
    if (!wanted) {
      return;
    }
    const controller = new AbortController();
    const timer = window.setTimeout(() => {
      get<EventAnswers[]>("/overview/answers", { event: wanted.split(",") }, controller.signal).then(
        (entries) => setAnswers((present) => addAnswers(present, entries)),
        () => undefined,
      );
    }, NEW_ANSWER_DELAY);
    return () => {
      window.clearTimeout(timer);
      controller.abort();
    };
  }, [wanted]);
  return [answers, setAnswers];
}

function addAnswers(present: Answers, entries: readonly EventAnswers[]): Answers {
  const next = new Map(present);
  entries.forEach((entry) => next.set(entry.eid, entry));
  return next;
}

/**
 * The list to show: it keeps its entries and their order while the pointer is over it or the focus
 * is in it, so that nobody opens another alert than the one aimed at.
 */
function useHold(alerts: readonly Alert[]) {
  const [held, setHeld] = useState<readonly Alert[] | null>(null);
  const isPointedAt = useRef(false);
  const isFocused = useRef(false);
  function follow(): void {
    const isHeld = isPointedAt.current || isFocused.current;
    setHeld((present) => (isHeld ? present ?? alerts : null));
  }
  const known = new Set(held?.map(({ id }) => id));
  return {
    shown: held ?? alerts,
    added: held ? alerts.filter(({ id }) => !known.has(id)).length : 0,
    renew: () => setHeld((present) => present && alerts),
    /** Entries change in place, also those that do not fire any more. */
    change: (events: readonly LiveEvent[]) => {
      const changed = listChanged(events);
      if (changed.size) {
        setHeld((present) => present && present.map((alert) => changed.get(alert.id) ?? alert));
      }
    },
    handlers: {
      // Not on entering: a list that grows under a pointer at rest is not aimed at.
      onPointerMove: (event: PointerEvent) => {
        if (!isPointedAt.current && event.pointerType === "mouse") {
          isPointedAt.current = true;
          follow();
        }
      },
      onPointerLeave: () => {
        isPointedAt.current = false;
        follow();
      },
      onFocus: () => {
        isFocused.current = true;
        follow();
      },
      onBlur: (event: FocusEvent) => {
        isFocused.current = event.currentTarget.contains(event.relatedTarget);
        follow();
      },
    },
  };
}

/** Whether an alert fires now. A fresh one is provisional until its first event is settled. */
function isActive({ state, history, fired_at, ends_at }: Alert): boolean {
  return (state === "firing" || (state === "provisional" && !!fired_at && !ends_at)) && history !== "withdrawn";
}

/** Apply changes of alerts: firing ones are added, others removed, the newest are kept. */
function applyAlerts(page: AlertPage, events: readonly LiveEvent[], size: number): AlertPage {
  const changed = listChanged(events);
  if (!changed.size) {
    return page;
  }
  const firing = [...changed.values()].filter(isActive);
  const alerts = [...page.alerts.filter(({ id }) => !changed.has(id)), ...firing];
  alerts.sort((one, other) => other.starts_at.localeCompare(one.starts_at));
  return { ...page, alerts: alerts.slice(0, size) };
}

function listChanged(events: readonly LiveEvent[]): Map<string, Alert> {
  const changed = events.filter(({ kind }) => kind === "alert").map(({ data }) => data as unknown as Alert);
  return new Map(changed.map((alert) => [alert.id, alert]));
}

/** Apply revisions. Answers of events with a new recall are forgotten, and so loaded again. */
function applyAnswers(present: Answers, events: readonly LiveEvent[]): Answers {
  if (events.some(({ kind }) => kind === "reset")) {
    return new Map();
  }
  const next = new Map(present);
  for (const { kind, data } of events) {
    const eid = String(data.eid);
    const entry = next.get(eid);
    if (entry === undefined) {
      continue;
    }
    const { answers } = entry;
    if (kind === "revision") {
      const revision = data as unknown as Revision;
      next.set(eid, { ...entry, answers: withRevision(answers, revision) });
    } else if (kind === "recall") {
      if (answers.some(({ id }) => id === data.id)) {
        const changed = answers.map((answer) => (answer.id === data.id ? { ...answer, state: String(data.state) } : answer));
        next.set(eid, { ...entry, answers: changed });
      } else {
        next.delete(eid);
      }
    }
  }
  return next;
}
