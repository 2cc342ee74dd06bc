import { Button, Card, CardBody, CardTitle, FormSelect, FormSelectOption, PageSection, SearchInput, Title } from "../components/library";
import { type FormEvent, type KeyboardEvent, useState } from "react";
import { useSearchParams } from "react-router";
import { type Alert, type AlertPage, type AppliedRule, type Occurrence, get } from "../api";
import { AlertLink, HistoryLabel, Pending, SeverityLabel, StateLabel, Time, alertTitle, formatCount, shortName, useTitle } from "../components/common";
import { moveFocus, useKeys } from "../keys";
import { useLoaded } from "../load";
import { formatDay, formatDuration, formatTime } from "../time";

const PAGE_SIZE = 50;
const DAYS = 35;
const DAY = 86_400_000; // milliseconds
const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

export function HistoryPage() {
  useTitle("History");
  const [parameters, setParameters] = useSearchParams();
  const text = parameters.get("text") ?? "";
  const rule = parameters.get("rule") ?? "";
  const label = parameters.get("label") ?? "";
  const day = parameters.get("day") ?? "";
  const rules = useLoaded((signal) => get<AppliedRule[]>("/rules", {}, signal), []);
  const occurrences = useLoaded(
    (signal) => get<Occurrence[]>("/overview/occurrences", { rule, days: DAYS }, signal),
    [rule],
  );
  useKeys({
    j: () => moveFocus(".alert-list .entry", 1),
    k: () => moveFocus(".alert-list .entry", -1),
    "/": () => document.querySelector<HTMLElement>("#search input")?.focus(),
  });

  function select(change: Record<string, string>): void {
    const next = new URLSearchParams(parameters);
    for (const [name, value] of Object.entries(change)) {
      if (value) {
        next.set(name, value);
      } else {
        next.delete(name);
      }
    }
    setParameters(next);
  }

  return (
    <PageSection>
      <Title headingLevel="h1">History</Title>
      <SearchForm key={`${text}|${label}`} text={text} label={label} search={select}>
        <FormSelect
          value={rule}
          onChange={(_, value) => select({ rule: value })}
          aria-label="Rule"
          className="rule-select"
        >
          <FormSelectOption value="" label="All rules" />
          {(rules.data ?? []).map((entry) => (
            <FormSelectOption key={entry.rule} value={entry.rule} label={shortName(entry.rule)} />
          ))}
        </FormSelect>
      </SearchForm>
      <div className="history-grid">
        <Results text={text} rule={rule} label={label} day={day} clearDay={() => select({ day: "" })} />
        <Card isCompact>
          <CardTitle component="h2">Occurrences of the last {DAYS} days</CardTitle>
          <CardBody>
            {occurrences.data === null ? (
              <Pending error={occurrences.error} />
            ) : (
              <Calendar occurrences={occurrences.data} day={day} selectDay={(value) => select({ day: value })} />
            )}
          </CardBody>
        </Card>
      </div>
    </PageSection>
  );
}

interface SearchProps {
  text: string;
  label: string;
  search: (change: Record<string, string>) => void;
  children: React.ReactNode;
}

function SearchForm({ text, label, search, children }: SearchProps) {
  const [typedText, setTypedText] = useState(text);
  const [typedLabel, setTypedLabel] = useState(label);
  const [problem, setProblem] = useState("");
  function submit(event: FormEvent): void {
    event.preventDefault();
    const wanted = typedLabel.trim();
    const isLabel = !wanted || wanted.includes("=");
    setProblem(isLabel ? "" : `“${wanted}” is no label: write name=value, such as severity=page.`);
    if (isLabel) {
      search({ text: typedText.trim(), label: wanted });
    }
  }
  /** The search inputs of the component library swallow the key Enter, or have a button each. */
  function submitOnEnter(event: KeyboardEvent<HTMLFormElement>): void {
    if (event.key === "Enter" && (event.target as HTMLElement).tagName === "INPUT") {
      event.preventDefault();
      event.stopPropagation();
      event.currentTarget.requestSubmit();
    }
  }
  return (
    <form className="search" role="search" onSubmit={submit} onKeyDownCapture={submitOnEnter}>
      <SearchInput
        id="search"
        aria-label="Text in rule, key, labels, annotations and notes"
        placeholder="Text in alerts and notes"
        value={typedText}
        onChange={(_, value) => setTypedText(value)}
        onClear={() => search({ text: "" })}
      />
      <SearchInput
        aria-label="Label, as name=value"
        placeholder="Label: severity=page"
        value={typedLabel}
        onChange={(_, value) => setTypedLabel(value)}
        onClear={() => search({ label: "" })}
      />
      {children}
      <Button type="submit">Search</Button>
      {problem && <p role="alert" className="note error search-problem">{problem}</p>}
    </form>
  );
}

interface ResultsProps {
  text: string;
  rule: string;
  label: string;
  day: string;
  clearDay: () => void;
}

function Results({ text, rule, label, day, clearDay }: ResultsProps) {
  const [size, setSize] = useState(PAGE_SIZE);
  const until = day ? new Date(Date.parse(day) + DAY).toISOString() : undefined;
  const query = {
    text,
    rule,
    label: label ? [label] : undefined,
    since: day || undefined,
    until,
    // Alerts that were found in history are past alerts as well.
    state: ["firing", "provisional", "resolved"],
    limit: size,
    count: true,
  };
  const page = useLoaded((signal) => get<AlertPage>("/alerts", query, signal), [text, rule, label, day, size]);
  if (page.data === null) {
    return <Pending error={page.error} lines={6} />;
  }
  const { alerts, total, next } = page.data;
  return (
    <section aria-labelledby="results-title">
      <Title headingLevel="h2" id="results-title" size="lg">
        {formatCount(total ?? alerts.length, "alert")}
        {day && ` on ${day}`}
      </Title>
      {day && (
        <Button variant="link" isInline onClick={clearDay}>
          All days
        </Button>
      )}
      {!alerts.length && (
        <p className="note">
          {text || rule || label || day ? "No past alert matches all of these filters." : "No alert has fired yet."}
        </p>
      )}
      <ul className="alert-list" aria-label="Alerts, newest first">
        {alerts.map((alert) => (
          <li key={alert.id}>
            <Result alert={alert} />
          </li>
        ))}
      </ul>
      {next && size < 1_000 && (
        <Button variant="secondary" onClick={() => setSize(Math.min(1_000, size + 200))}>
          Show more
        </Button>
      )}
    </section>
  );
}

function Result({ alert }: { alert: Alert }) {
  return (
    <AlertLink id={alert.id}>
      <span className="row-what">
        <span>
          <SeverityLabel alert={alert} /> <strong>{alertTitle(alert)}</strong>
        </span>
        <span className="note">{shortName(alert.rule)}</span>
      </span>
      <span className="row-norm">
        <span>{formatTime(alert.starts_at)}</span>
        <span className="note">
          <Time value={alert.starts_at} brief />
        </span>
      </span>
      <span className="row-past">
        <span>
          <StateLabel state={alert.state} /> <HistoryLabel history={alert.history} />
        </span>
        {alert.ends_at && (
          <span className="note">lasted {formatDuration(Date.parse(alert.ends_at) - Date.parse(alert.starts_at))}</span>
        )}
      </span>
    </AlertLink>
  );
}

interface CalendarProps {
  occurrences: Occurrence[];
  day: string;
  selectDay: (day: string) => void;
}

/** Alerts that fired on each day, and how many events had none. */
function Calendar({ occurrences, day, selectDay }: CalendarProps) {
  const days = new Map<string, { fired: number; withoutAlert: number }>();
  for (const entry of occurrences) {
    const sum = days.get(entry.day) ?? { fired: 0, withoutAlert: 0 };
    days.set(entry.day, { fired: sum.fired + entry.fired, withoutAlert: sum.withoutAlert + entry.without_alert });
  }
  const most = Math.max(1, ...[...days.values()].map(({ fired }) => fired));
  const events = occurrences.reduce((sum, entry) => sum + entry.events, 0);
  const withoutAlert = occurrences.reduce((sum, entry) => sum + entry.without_alert, 0);
  const fired = occurrences.reduce((sum, entry) => sum + entry.fired, 0);
  return (
    <>
      <p>
        {formatCount(fired, "alert")} from {formatCount(events, "event")}; {formatCount(withoutAlert, "event")} (
        {events ? Math.round((withoutAlert / events) * 100) : 0} %) occurred without an alert that fired.
      </p>
      <table className="calendar">
        <caption className="note">Alerts by day (UTC). Select a day to list them.</caption>
        <thead>
          <tr>
            {WEEKDAYS.map((name) => (
              <th key={name} scope="col">
                {name}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {listWeeks().map((week) => (
            <tr key={week[0]}>
              {week.map((date) => {
                const count = days.get(date);
                const level = count ? Math.ceil((count.fired / most) * 4) : 0;
                const text = `${date}: ${formatCount(count?.fired ?? 0, "alert")}, ${formatCount(count?.withoutAlert ?? 0, "event")} without an alert`;
                return (
                  <td key={date}>
                    <button
                      type="button"
                      className={`day level-${level}`}
                      aria-label={text}
                      title={text}
                      aria-pressed={date === day}
                      disabled={date > formatDay(Date.now())}
                      onClick={() => selectDay(date === day ? "" : date)}
                    >
                      {date.endsWith("-01") ? date.slice(5) : date.slice(8)}
                      <span className="day-count">{count?.fired || ""}</span>
                    </button>
                  </td>
                );
              })}
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

/** The weeks of the last days, each from Monday. */
function listWeeks(): string[][] {
  const today = Date.parse(formatDay(Date.now()));
  const first = today - (DAYS - 1) * DAY;
  const monday = first - ((new Date(first).getUTCDay() + 6) % 7) * DAY;
  const weeks: string[][] = [];
  for (let start = monday; start <= today; start += 7 * DAY) {
    weeks.push(WEEKDAYS.map((_, index) => formatDay(start + index * DAY)));
  }
  return weeks;
}
