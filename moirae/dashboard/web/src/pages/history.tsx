import { Button, Card, CardBody, CardTitle, Checkbox, FormSelect, FormSelectOption, Label, PageSection, SearchInput, Title } from "../components/library";
import { type FormEvent, type KeyboardEvent, useState } from "react";
import { type Alert, type AlertDelivery, type AlertPage, type AppliedRule, type Occurrence, get, post } from "../api";
import { NoteDialog } from "../components/actions";
import { AlertLink, HistoryLabel, Pending, SeverityLabel, StateLabel, Time, alertTitle, formatCount, shortName, shorten, useTitle } from "../components/common";
import { DeliveryNote, useDeliveries } from "../components/notifications";
import { cutText } from "../components/text";
import { moveFocus, useKeys } from "../keys";
import { useFilters, useLoaded } from "../load";
import { useIsOperator } from "../session";
import { formatDay, formatDuration, formatMinute } from "../time";

const PAGE_SIZE = 50;
const DAYS = 35; // that the calendar shows without a month
const MONTHS = 13; // to choose from, up to the present one
const MAX_RULES = 1_000; // that can be selected
const MAX_DAYS = 397; // in that many months
const DAY = 86_400_000; // milliseconds
const WEEKDAYS = ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"];

export function HistoryPage() {
  useTitle("History");
  const [parameters, select] = useFilters();
  const text = parameters.get("text") ?? "";
  const rule = parameters.get("rule") ?? "";
  const label = parameters.get("label") ?? "";
  const day = readParameter(parameters, "day", /^\d{4}-\d\d-\d\d$/);
  const month = readParameter(parameters, "month", /^\d{4}-\d\d$/);
  const rules = useLoaded((signal) => get<AppliedRule[]>("/rules", { limit: MAX_RULES }, signal), []);
  const occurrences = useLoaded(
    (signal) => get<Occurrence[]>("/overview/occurrences", { rule, days: MAX_DAYS }, signal),
    [rule],
  );
  useKeys({
    j: () => moveFocus(".alert-list .entry", 1),
    k: () => moveFocus(".alert-list .entry", -1),
    "/": () => document.querySelector<HTMLElement>("#search input")?.focus(),
  });

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
        <Results text={text} rule={rule} label={label} day={day} month={month} clearDate={() => select({ day: "", month: "" })} />
        <Card isCompact>
          <CardTitle component="h2">{month ? `Occurrences in ${month}` : `Occurrences of the last ${DAYS} days`}</CardTitle>
          <CardBody>
            {occurrences.data === null ? (
              <Pending error={occurrences.error} />
            ) : (
              <Calendar occurrences={occurrences.data} day={day} month={month} select={select} />
            )}
          </CardBody>
        </Card>
      </div>
    </PageSection>
  );
}

/** A parameter of the address that is a date, else an empty text. */
function readParameter(parameters: URLSearchParams, name: string, form: RegExp): string {
  const value = parameters.get(name) ?? "";
  return form.test(value) && !Number.isNaN(Date.parse(value)) ? value : "";
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
  month: string;
  clearDate: () => void;
}

function Results({ text, rule, label, day, month, clearDate }: ResultsProps) {
  const [size, setSize] = useState(PAGE_SIZE);
  const date = day || month;
  const until = day ? new Date(Date.parse(day) + DAY).toISOString() : month ? `${nextMonth(month)}-01` : undefined;
  const query = {
    text,
    rule,
    label: label ? [label] : undefined,
    since: day || (month ? `${month}-01` : undefined),
    until,
    // Alerts that were found in history are past alerts as well.
    state: ["firing", "provisional", "resolved"],
    limit: size,
    count: true,
  };
  const page = useLoaded((signal) => get<AlertPage>("/alerts", query, signal), [text, rule, label, date, size]);
  const [selected, setSelected] = useState<ReadonlySet<string> | null>(null);
  const [resolved, setResolved] = useState("");
  const isOperator = useIsOperator();
  const deliveries = useDeliveries(page.data?.alerts.map(({ id }) => id) ?? []);
  if (page.data === null) {
    return <Pending error={page.error} lines={6} />;
  }
  const { alerts, total, next } = page.data;
  return (
    <section aria-labelledby="results-title">
      <Title headingLevel="h2" id="results-title" size="lg">
        {formatCount(total ?? alerts.length, "alert")}
        {date && ` ${day ? "on" : "in"} ${date}`}
      </Title>
      {date && (
        <Button variant="link" isInline onClick={clearDate}>
          All days
        </Button>
      )}
      {!alerts.length && (
        <p className="note">
          {text || rule || label || date ? "No past alert matches all of these filters." : "No alert has fired yet."}
        </p>
      )}
      {isOperator && alerts.length > 0 && (
        <BulkResolution
          alerts={alerts}
          selected={selected}
          select={(next) => {
            setSelected(next);
            setResolved("");
          }}
          done={(count) => {
            setSelected(null);
            setResolved(`The resolution of ${formatCount(count, "alert")} is stored.`);
            page.reload();
          }}
        />
      )}
      <p role="status" className="note">
        {resolved}
      </p>
      <ul className={selected ? "alert-list selectable" : "alert-list"} aria-label="Alerts, newest first">
        {alerts.map((alert) => (
          <li key={alert.id}>
            {selected && (
              <Checkbox
                id={`select-${alert.id}`}
                aria-label={`Select ${cutText(alertTitle(alert))}`}
                isChecked={selected.has(alert.id)}
                onChange={(_, isChecked) => setSelected(toggle(selected, alert.id, isChecked))}
              />
            )}
            <Result alert={alert} deliveries={deliveries.get(alert.id) ?? []} />
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

function toggle(selected: ReadonlySet<string>, id: string, isChecked: boolean): ReadonlySet<string> {
  const next = new Set(selected);
  if (isChecked) {
    next.add(id);
  } else {
    next.delete(id);
  }
  return next;
}

interface BulkProps {
  alerts: readonly Alert[];
  /** IDs of alerts; null: none are being selected. */
  selected: ReadonlySet<string> | null;
  select: (selected: ReadonlySet<string> | null) => void;
  /** Called with the number of alerts that were resolved. */
  done: (count: number) => void;
}

/** Select alerts, and record what fixed all of them. */
function BulkResolution({ alerts, selected, select, done }: BulkProps) {
  const [isOpen, setOpen] = useState(false);
  if (selected === null) {
    return (
      <Button variant="secondary" size="sm" onClick={() => select(new Set())}>
        Resolve several
      </Button>
    );
  }
  async function save(body: unknown): Promise<void> {
    const ids = [...(selected ?? [])];
    await post("/resolutions", { ...(body as object), alerts: ids });
    setOpen(false);
    done(ids.length);
  }
  const tags = [...new Set(alerts.flatMap(({ tag }) => tag ?? []))];
  return (
    <div className="bulk" role="group" aria-label="Resolve several alerts">
      <Button size="sm" isDisabled={!selected.size} onClick={() => setOpen(true)}>
        Resolve {formatCount(selected.size, "alert")}
      </Button>
      <Button variant="link" size="sm" onClick={() => select(new Set(alerts.map(({ id }) => id)))}>
        Select all {alerts.length} shown
      </Button>
      <Button variant="link" size="sm" onClick={() => select(null)}>
        Select none
      </Button>
      {isOpen && <NoteDialog kind="resolve" tags={tags} close={() => setOpen(false)} save={save} />}
    </div>
  );
}

function Result({ alert, deliveries }: { alert: Alert; deliveries: readonly AlertDelivery[] }) {
  return (
    <AlertLink id={alert.id}>
      <span className="row-what">
        <span>
          <SeverityLabel alert={alert} /> <strong>{cutText(alertTitle(alert))}</strong>
        </span>
        <span className="note">{shortName(alert.rule)}</span>
        {deliveries.length > 0 && <DeliveryNote deliveries={deliveries} />}
        {alert.resolution && (
          <span className="row-resolution">
            {alert.tag && (
              <Label isCompact color="teal">
                {alert.tag}
              </Label>
            )}{" "}
            {alert.effect && (
              <Label isCompact color={alert.effect === "did not help" ? "orange" : "grey"}>
                {alert.effect}
              </Label>
            )}{" "}
            {shorten(alert.resolution)}
          </span>
        )}
      </span>
      <span className="row-norm">
        <span>{formatMinute(alert.starts_at)}</span>
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
  month: string;
  select: (change: Record<string, string>) => void;
}

/** Alerts that fired in each month and on each day of one, and how many events had none. */
function Calendar({ occurrences, day, month, select }: CalendarProps) {
  const days = sumBy(occurrences, (entry) => entry.day);
  const shown = listWeeks(month);
  const first = month || shown.firstDay;
  const inRange = occurrences.filter((entry) => (month ? entry.day.startsWith(month) : entry.day >= first));
  const { fired, events, withoutAlert } = sum(inRange);
  const most = highest(shown.weeks.flat().flatMap((date) => days.get(date) ?? []));
  return (
    <>
      <Months occurrences={occurrences} month={month} select={(value) => select({ month: value, day: "" })} />
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
          {shown.weeks.map((week) => (
            <tr key={week[0]}>
              {week.map((date) => (
                <td key={date}>
                  <CalendarButton
                    name={date}
                    short={date.endsWith("-01") ? date.slice(5) : date.slice(8)}
                    counts={days.get(date)}
                    most={most}
                    isPressed={date === day}
                    isDisabled={date > formatDay(Date.now()) || (month !== "" && !date.startsWith(month))}
                    press={() => select({ day: date === day ? "" : date })}
                  />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </>
  );
}

interface MonthsProps {
  occurrences: Occurrence[];
  month: string;
  select: (month: string) => void;
}

/** The months of the last year, oldest first. Months before the first event are left out. */
function Months({ occurrences, month, select }: MonthsProps) {
  const counts = sumBy(occurrences, (entry) => entry.day.slice(0, 7));
  const first = [...counts.keys(), month || formatDay(Date.now())].reduce((one, other) => (one < other ? one : other)).slice(0, 7);
  const months = listMonths().filter((name) => name >= first);
  const most = highest([...counts.values()]);
  if (months.length < 2) {
    return null;
  }
  return (
    <div className="months" role="group" aria-label="Months">
      {months.map((name) => (
        <CalendarButton
          key={name}
          name={name}
          short={name}
          counts={counts.get(name)}
          most={most}
          isPressed={name === month}
          isDisabled={false}
          press={() => select(name === month ? "" : name)}
        />
      ))}
    </div>
  );
}

interface ButtonProps {
  name: string;
  short: string;
  counts: Counts | undefined;
  /** The most alerts that one of the buttons has. */
  most: number;
  isPressed: boolean;
  isDisabled: boolean;
  press: () => void;
}

/** A day or a month with the number of its alerts. */
function CalendarButton({ name, short, counts, most, isPressed, isDisabled, press }: ButtonProps) {
  const { fired, withoutAlert } = counts ?? NO_COUNTS;
  const text = `${name}: ${formatCount(fired, "alert")}, ${formatCount(withoutAlert, "event")} without an alert`;
  return (
    <button
      type="button"
      className={`day level-${Math.ceil((fired / most) * 4)}`}
      title={text}
      aria-pressed={isPressed}
      disabled={isDisabled}
      onClick={press}
    >
      {short} <span className="day-count">{fired || ""}</span>
      <span className="pf-v6-screen-reader">{text}</span>
    </button>
  );
}

interface Counts {
  fired: number;
  events: number;
  withoutAlert: number;
}

const NO_COUNTS: Counts = { fired: 0, events: 0, withoutAlert: 0 };

function sum(occurrences: readonly Occurrence[]): Counts {
  return occurrences.reduce(
    (total, entry) => ({
      fired: total.fired + entry.fired,
      events: total.events + entry.events,
      withoutAlert: total.withoutAlert + entry.without_alert,
    }),
    NO_COUNTS,
  );
}

function sumBy(occurrences: readonly Occurrence[], key: (entry: Occurrence) => string): Map<string, Counts> {
  const groups = new Map<string, Occurrence[]>();
  for (const entry of occurrences) {
    const group = groups.get(key(entry)) ?? [];
    group.push(entry);
    groups.set(key(entry), group);
  }
  return new Map([...groups].map(([name, entries]) => [name, sum(entries)]));
}

function highest(counts: readonly Counts[]): number {
  return Math.max(1, ...counts.map(({ fired }) => fired));
}

/** The weeks of a month, or of the last days without one, each from Monday. */
function listWeeks(month: string): { firstDay: string; weeks: string[][] } {
  const today = Date.parse(formatDay(Date.now()));
  const first = month ? Date.parse(`${month}-01`) : today - (DAYS - 1) * DAY;
  const last = month ? Date.parse(`${nextMonth(month)}-01`) - DAY : today;
  const monday = first - ((new Date(first).getUTCDay() + 6) % 7) * DAY;
  const weeks: string[][] = [];
  for (let start = monday; start <= last; start += 7 * DAY) {
    weeks.push(WEEKDAYS.map((_, index) => formatDay(start + index * DAY)));
  }
  return { firstDay: formatDay(first), weeks };
}

/** The present month and those before it, such as `2026-11`, oldest first. */
function listMonths(): string[] {
  const now = new Date();
  return Array.from({ length: MONTHS }, (_, index) =>
    formatDay(Date.UTC(now.getUTCFullYear(), now.getUTCMonth() - (MONTHS - 1 - index), 1)).slice(0, 7),
  );
}

function nextMonth(month: string): string {
  const [year, number] = month.split("-").map(Number);
  return formatDay(Date.UTC(year, number, 1)).slice(0, 7);
}
