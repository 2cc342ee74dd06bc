import { Button, Alert as Message, Card, CardBody, CardTitle, Content, Label, PageSection, Title } from "../components/library";
import { useState } from "react";
import { Link, useNavigate, useParams } from "react-router";
import {
  type Alert,
  type AlertDetails,
  type AlertReport,
  type Answer,
  type EventDetails,
  type HistoryChange,
  type Hit,
  type Judgement,
  type NormBand,
  type Revision,
  type Row,
  type Timeline,
  describeProblem,
  get,
  post,
} from "../api";
import {
  type Norm,
  conclude,
  coverageOf,
  describeCoverage,
  describeDistance,
  describeHit,
  describeInterval,
  describeLength,
  describeReturn,
  findNorm,
  findSimilar,
  formatPercent,
  isEnoughToJudge,
  isOpen,
  isPartOfHistory,
  listRecalls,
  listStages,
  listTerms,
  countTooFewEpisodes,
  readForecast,
  readNorm,
  sortSeries,
  usualRange,
  withRevision,
} from "../answers";
import { usePrinting } from "../printing";
import { explainNoRecall, findComparison, hasContexts, isBuiltIn, useRule } from "../rule";
import { AlertActions } from "../components/actions";
import { ChartGroup, DEFAULT_SPAN, type Span, SpanChoice } from "../components/chart";
import { HistoryLabel, Missing, Pending, SafeLink, SeverityLabel, StateLabel, Time, alertTitle, formatShort, formatValue, shortName, shorten, useTitle } from "../components/common";
import { CoverageBar } from "../components/coverage";
import { ChangesCard } from "../components/changes";
import { IncidentCard } from "../components/incident";
import { FixRecord, type Fixes, RemedyLabels, StepsCard, useFixes } from "../components/fixes";
import { NotificationCard } from "../components/notifications";
import { RowsTable } from "../components/rows";
import { SimilarAlert } from "../components/similar";
import { FoldedSection, LongText } from "../components/text";
import { WhyCard } from "../components/why";
import { useKeys } from "../keys";
import { formatMinute } from "../time";
import { type LiveEvent, useLive } from "../live";
import { useLoaded } from "../load";
import { useIsOperator } from "../session";

const JUDGEMENT_INTERVAL = 10_000; // milliseconds between loads of what other people judge
const OPEN_INTERVAL = 5_000; // milliseconds between loads while recalls are open, for the remaining time
const FIRST_HITS = 5; // similar alerts that are shown at first
const STAGE_ROWS = 10; // of a stage that are shown at first

export function AlertPage() {
  const id = useParams().alert ?? "";
  const report = useLoaded((signal) => get<AlertReport>(`/alerts/${encodeURIComponent(id)}/report`, {}, signal), [id]);
  if (report.isMissing) {
    return (
      <PageSection>
        <Missing title="There is no such alert">It may have been deleted, or its address is incomplete.</Missing>
      </PageSection>
    );
  }
  if (report.data === null) {
    return (
      <PageSection>
        <Title headingLevel="h1">Alert</Title>
        <Pending error={report.error} lines={8} />
      </PageSection>
    );
  }
  return <Report key={id} report={report.data} error={report.error} reload={report.reload} update={report.update} />;
}

interface ReportProps {
  report: AlertReport;
  error: string | null;
  reload: () => void;
  update: (change: (report: AlertReport) => AlertReport) => void;
}

function Report({ report, error, reload, update }: ReportProps) {
  const { alert, event } = report;
  const recalls = listRecalls(report.recalls);
  const stages = listStages(report.recalls);
  const isOperator = useIsOperator();
  const navigate = useNavigate();
  const [areAllAskedFor, setAllShown] = useState(false);
  const [chosen, setChosen] = useState<number | null>(null);
  const areAllShown = usePrinting() || areAllAskedFor;
  const definition = useRule(alert.rule, alert.version);
  const similar = findSimilar(recalls);
  const fixes = useFixes(alert.rule);
  const hits = similar?.hits ?? [];
  const judgements = useLoaded(
    (signal) => get<Judgement[]>(`/events/${alert.eid}/judgements`, {}, signal),
    [alert.eid],
    hits.length ? JUDGEMENT_INTERVAL : 0,
  );
  useTitle(alertTitle(alert));
  useLive({ event: alert.eid }, (events) => {
    update((present) => events.reduce(applyEvent, present));
    if (events.some(({ kind }) => kind !== "revision")) {
      reload();
    }
  });
  useLoaded(
    async () => {
      if (recalls.some(isOpen)) {
        reload();
      }
    },
    [alert.id],
    OPEN_INTERVAL,
  );
  useKeys({ c: () => hits.length && navigate(`/compare/${alert.eid}/${hits[0].eid}`) });

  /** `helps` null: withdraw one's own judgement. */
  async function judge(past: string, helps: boolean | null): Promise<void> {
    const path = `/events/${alert.eid}/judgements`;
    await (helps === null ? post(`${path}/withdraw`, { past }) : post(path, { past, helps }));
    judgements.reload();
  }

  return (
    <>
      <PageSection className="alert-head">
        <AlertHeader alert={alert} />
        {isOperator ? (
          <AlertActions alert={alert} answers={recalls} noRecall={explainNoRecall(alert, definition)} reload={reload} />
        ) : (
          <p className="note viewer-note">You can read only: to act on alerts, log in with a token of the role operator.</p>
        )}
        {error && <Message variant="warning" isInline isPlain title={`Not up to date: ${error}`} />}
      </PageSection>
      <PageSection className="alert-grid" isFilled>
        <section className="past" aria-labelledby="past-title">
          <Title headingLevel="h2" id="past-title">
            The past of this alert
          </Title>
          <Verdict alert={alert} similar={similar} />
          <ForecastCard similar={similar} fixes={fixes} />
          <StepsCard alert={alert.id} revision={similar?.number ?? 0} />
          {hits.slice(0, areAllShown ? undefined : FIRST_HITS).map((hit) => (
            <SimilarAlert
              key={hit.eid}
              eid={alert.eid}
              hit={hit}
              fixes={fixes}
              judgements={judgements.data?.filter((entry) => entry.past_eid === hit.eid) ?? []}
              judge={isOperator ? judge : null}
            />
          ))}
          {hits.length > FIRST_HITS && !areAllShown && (
            <Button variant="secondary" onClick={() => setAllShown(true)}>
              Show {hits.length - FIRST_HITS} more similar alerts
            </Button>
          )}
        </section>
        <div className="side">
          <NormCard answers={recalls} event={event} alert={alert} />
          <IncidentCard alert={alert.id} />
          {event && <ChangesCard eid={alert.eid} revision={similar?.number ?? 0} />}
          {event && (
            <TimelineCard alert={alert} attributes={event.attributes} norm={findNorm(recalls)?.number ?? 0} choose={setChosen} />
          )}
          {isOperator && event && !isBuiltIn(alert.rule) && <WhyCard alert={alert.id} chosen={chosen} />}
          <Card isCompact>
            <CardTitle component="h2">History read</CardTitle>
            <CardBody>
              {recalls.length ? (
                recalls.map((answer) => <CoverageBar key={answer.recall} answer={answer} />)
              ) : (
                <p className="note">{explainNoRecall(alert, definition)}</p>
              )}
              {recalls.map((answer) => (
                <Revisions key={answer.recall} answer={answer} />
              ))}
            </CardBody>
          </Card>
          {stages.map((stage) => (
            <StageCard key={stage.recall} stage={stage} />
          ))}
          <ConditionCard alert={alert} decisions={alert.decisions} isReading={recalls.some(isOpen)} />
          <NotificationCard alert={alert.id} />
          <NotesCard alert={alert} reload={reload} />
          {!event && !isBuiltIn(alert.rule) && <p className="note">The event of this alert has been deleted.</p>}
          <ContextCard event={event} hits={hits} hasContexts={hasContexts(definition)} />
        </div>
      </PageSection>
    </>
  );
}

function AlertHeader({ alert }: { alert: AlertDetails }) {
  const labels = Object.entries(alert.labels).filter(([name]) => name !== "severity" && name !== "alertname");
  const runbook = alert.annotations.runbook_url;
  const resolution = alert.notes.findLast(({ kind }) => kind === "resolution");
  return (
    <>
      <div className="badges">
        <SeverityLabel alert={alert} /> <StateLabel state={alert.state} />
        <HistoryLabel history={alert.history} />
        {isBuiltIn(alert.rule) ? shortName(alert.rule) : <Link to={`/rules/${alert.rule}`}>{shortName(alert.rule)}</Link>}
        {labels.map(([name, value]) => (
          <Label key={name} isCompact variant="outline">
            <LongText text={`${name}=${value}`} length={100} />
          </Label>
        ))}
      </div>
      <Title headingLevel="h1">
        <LongText text={alertTitle(alert)} />
      </Title>
      {alert.annotations.description && <Content component="p"><LongText text={alert.annotations.description} length={1_000} /></Content>}
      <p className="note">
        Since <Time value={alert.starts_at} />
        {alert.ends_at && (
          <>
            , ended <Time value={alert.ends_at} brief />
            {alert.end_reason === "no_data" && " as its data vanished"}
          </>
        )}
        , {alert.events} {alert.events === 1 ? "event" : "events"}
        {alert.acknowledged_by ? `, acknowledged by ${alert.acknowledged_by}` : ", not acknowledged"}
        {alert.assigned_to && `, assigned to ${alert.assigned_to}`}
        {resolution && (
          <>
            , resolution by {resolution.author}: <strong>{resolution.tag ?? shorten(resolution.text)}</strong>
            {alert.effect && ` (${alert.effect})`}
          </>
        )}
        {runbook && (
          <>
            , <SafeLink url={runbook}>runbook</SafeLink>
          </>
        )}
      </p>
    </>
  );
}

function Verdict({ alert, similar }: { alert: Alert; similar: Answer | undefined }) {
  const conclusion = conclude(similar, findComparison(alert, useRule(alert.rule, alert.version)));
  const variants = { known: "success", similar: "info", none: "warning", wait: "info" } as const;
  const coverage = similar ? coverageOf(similar) : null;
  const isKnown = conclusion.kind === "known";
  const isFinal = coverage === null || coverage.final;
  // Said without reserve only if nothing unread or resolved otherwise can contradict it.
  const isSure = isFinal && conclusion.isAgreed === true && !(coverage?.left && coverage.hopeful);
  const known = isSure ? "Seen before. What fixed it" : `${isFinal ? "The" : "So far the"} most similar, and what fixed it`;
  const title = isKnown ? `${known}: ${conclusion.title}` : conclusion.title;
  const variant = isKnown && !isSure ? "info" : variants[conclusion.kind];
  return (
    <div role="status">
      <Message variant={variant} isInline title={title} component="h3" className="verdict">
        {conclusion.hit && <SeenHit hit={conclusion.hit} />}
        {conclusion.detail && <p>{conclusion.detail}</p>}
        {coverage && isPartOfHistory(coverage) && (
          <p className="note">
            {coverage.final ? "From a part of the history" : "So far"}: {describeCoverage(coverage)}.
          </p>
        )}
      </Message>
    </div>
  );
}

/** `jena-1: disk full, 4 d 21 h ago, similarity 0.66, lasted 57 min, has not come back since` */
function SeenHit({ hit }: { hit: Hit }) {
  const facts = [`similarity ${hit.score.toFixed(2)}`, describeLength(hit), describeReturn(hit)].filter(Boolean);
  return (
    <p>
      {describeHit(hit)}, <Time value={hit.ts} brief />, {facts.join(", ")}.
    </p>
  );
}

/** Probable resolutions, by the resolutions of past alerts. */
function ForecastCard({ similar, fixes }: { similar: Answer | undefined; fixes: Fixes }) {
  const forecast = readForecast(similar);
  const episodes = countTooFewEpisodes(similar);
  if (episodes !== null) {
    return (
      <p className="note">
        What it probably is: too few to say. {episodes} episodes of known resolution; at least 20 are needed.
      </p>
    );
  }
  if (!forecast) {
    return null;
  }
  const entries: [string, number][] = [...forecast.tags, ["none of these", forecast.newTag]];
  return (
    <Card isCompact component="section" aria-label="What it probably is">
      <CardTitle component="h3">What it probably is</CardTitle>
      <CardBody>
        <ol className="forecast">
          {entries.map(([tag, probability], index) => (
            <li key={tag} className={index === forecast.tags.length ? "forecast-new" : undefined}>
              <span className="forecast-tag">{tag}</span>
              <meter min={0} max={1} value={probability} aria-label={`Probability of ${tag}`} />
              <span>{formatPercent(probability)}</span>
              <span className="note">{describeInterval(forecast, index)}</span>
              <FixRecord fix={fixes.get(tag)} />
            </li>
          ))}
        </ol>
        {forecast.reason ? (
          <Message variant="warning" isInline isPlain title={forecast.reason} />
        ) : (
          <p className="note">Learned from the resolutions of past alerts of this rule. Ranges are 95 % intervals.</p>
        )}
      </CardBody>
    </Card>
  );
}

/** The rows of a stage, which joins answers with live data. */
function StageCard({ stage }: { stage: Answer }) {
  const rows = (stage.rows ?? []) as Row[];
  return (
    <Card isCompact>
      <CardTitle component="h2">
        {stage.recall} <StateLabel state={stage.state} />
      </CardTitle>
      <CardBody>
        {stage.error && (
          <p className="note error">
            <LongText text={stage.error} />
          </p>
        )}
        {!rows.length && !stage.error && <p className="note">{isOpen(stage) ? "No rows so far." : "No rows."}</p>}
        {rows.length > 0 && <RowsTable rows={rows.slice(0, STAGE_ROWS)} label={`Rows of ${stage.recall}`} />}
        {rows.length > STAGE_ROWS && (
          <FoldedSection title={`${rows.length - STAGE_ROWS} more rows`}>
            {() => <RowsTable rows={rows.slice(STAGE_ROWS)} label={`More rows of ${stage.recall}`} />}
          </FoldedSection>
        )}
      </CardBody>
    </Card>
  );
}

interface NormProps {
  answers: readonly Answer[];
  event: EventDetails | null;
  alert: AlertDetails;
}

function NormCard({ answers, event, alert }: NormProps) {
  const answer = findNorm(answers);
  const definition = useRule(alert.rule, alert.version);
  if (answer === undefined) {
    return null;
  }
  const attributes = event?.attributes ?? {};
  const row = answer.rows?.[0] as Row | undefined;
  const norm = readNorm(row, attributes, definition?.recall?.[answer.recall]);
  const coverage = coverageOf(answer);
  const distance = norm && describeDistance(norm, coverage);
  return (
    <Card isCompact className="norm-card">
      <CardTitle component="h2">Is this normal?</CardTitle>
      <CardBody>
        {!row && <p className="note">{isOpen(answer) ? "Not known yet." : "No answer."}</p>}
        {norm && (
          <>
            <p className="norm">
              {norm.value !== null && (
                <>
                  {norm.attribute}: <strong>{formatShort(norm.value)}</strong> now,{" "}
                </>
              )}
              normally <strong>{formatShort(norm.mean)}</strong>
              {norm.deviation !== null && `\u00a0±\u00a0${formatShort(norm.deviation)}`}
            </p>
            {distance && <p>{distance}.</p>}
            {isEnoughToJudge(norm, coverage) && <NormBar norm={norm} />}
            {coverage && isPartOfHistory(coverage) && <p className="note">{describeCoverage(coverage)}.</p>}
          </>
        )}
        {answer.rows && answer.rows.length > 0 && (
          <FoldedSection title={`Answer of ${answer.recall}`}>
            {() => <RowsTable rows={answer.rows as Row[]} label={`Answer of ${answer.recall}`} />}
          </FoldedSection>
        )}
      </CardBody>
    </Card>
  );
}

/** The value of the event beside the usual range. */
function NormBar({ norm }: { norm: Norm }) {
  const range = usualRange(norm);
  if (norm.value === null || range === null) {
    return null;
  }
  const [low, high] = range;
  const highest = Math.max(norm.value, norm.highest ?? high, high);
  const lowest = Math.min(norm.value, low);
  const scale = (value: number) => (highest > lowest ? ((value - lowest) / (highest - lowest)) * 280 + 10 : 150);
  const now = scale(norm.value);
  const anchor = now < 30 ? "start" : now > 270 ? "end" : "middle";
  return (
    <svg className="norm-bar" viewBox="0 0 300 48" role="img" aria-label={`Usual range ${formatShort(low)} to ${formatShort(high)}, value ${formatShort(norm.value)}`}>
      <text x={now} y="9" textAnchor={anchor}>
        now
      </text>
      <line x1="10" x2="290" y1="22" y2="22" className="norm-axis" />
      <rect x={scale(low)} width={Math.max(2, scale(high) - scale(low))} y="16" height="12" rx="3" className="norm-range" />
      <line x1={scale(norm.mean)} x2={scale(norm.mean)} y1="14" y2="30" className="norm-mean" />
      <circle cx={now} cy="22" r="6" className="norm-value" />
      <text x="10" y="44">
        usual: {formatShort(low)} to {formatShort(high)}
      </text>
      {norm.highest !== null && norm.highest > Math.max(norm.value, high) && (
        <text x="290" y="44" textAnchor="end">
          highest: {formatShort(norm.highest)}
        </text>
      )}
    </svg>
  );
}

function Revisions({ answer }: { answer: Answer }) {
  if (!answer.number) {
    return null;
  }
  return (
    <FoldedSection title={`${answer.number} ${answer.number === 1 ? "revision" : "revisions"} of ${answer.recall}`}>
      {() => <RevisionList answer={answer} />}
    </FoldedSection>
  );
}

function RevisionList({ answer }: { answer: Answer }) {
  const revisions = useLoaded(
    (signal) => get<Revision[]>(`/recalls/${answer.id}/revisions`, {}, signal),
    [answer.id, answer.number],
  );
  if (revisions.data === null) {
    return <Pending error={revisions.error} lines={2} />;
  }
  const rows = revisions.data.map((revision) => {
    const coverage = coverageOf(revision as unknown as Answer);
    return {
      number: revision.number,
      read: coverage ? describeCoverage(coverage) : "",
      answer: revision.hits
        ? revision.hits
            .slice(0, 3)
            .map((hit) => hit.score.toFixed(2))
            .join(", ") || "nothing comparable"
        : Object.entries(revision.rows?.[0] ?? {})
            .map(([name, value]) => `${name} ${formatValue(value)}`)
            .join(", "),
    };
  });
  return <RowsTable rows={rows} label={`Revisions of ${answer.recall}`} />;
}

interface TimelineProps {
  alert: AlertDetails;
  attributes: Row;
  /** The number of the norm's answer, which its band follows. */
  norm: number;
  /** Called with a time that is clicked, in milliseconds. */
  choose: (time: number) => void;
}

function TimelineCard({ alert, attributes, norm, choose }: TimelineProps) {
  const [span, setSpan] = useState(DEFAULT_SPAN);
  const { before, after } = span;
  const timeline = useLoaded(
    (signal) => get<Timeline>(`/events/${alert.eid}/timeline`, { before, after }, signal),
    [alert.eid, before, after],
  );
  const bands = useLoaded(
    (signal) => get<NormBand[]>(`/events/${alert.eid}/norms`, { before, after }, signal),
    [alert.eid, before, after, norm],
  );
  return (
    <Card isCompact>
      <CardTitle component="h2">Around the alert (UTC)</CardTitle>
      <CardBody>
        <SpanChoice span={span} choose={setSpan} />
        {timeline.data === null && <Pending error={timeline.error} lines={3} />}
        {timeline.data && (
          <TimelineCharts timeline={timeline.data} bands={bands.data ?? []} attributes={attributes} span={span} choose={choose} />
        )}
      </CardBody>
    </Card>
  );
}

interface ChartsProps {
  timeline: Timeline;
  bands: readonly NormBand[];
  attributes: Row;
  span: Span;
  choose: (time: number) => void;
}

/** The columns that the event is about come first. */
function TimelineCharts({ timeline, bands, attributes, span, choose }: ChartsProps) {
  if (!timeline.series.length && !timeline.missing.length) {
    return <p className="note">No stream has the key of this alert.</p>;
  }
  const ownCount = timeline.series.filter(({ column }) => column in attributes).length;
  const charts = sortSeries(timeline.series, attributes).map((series) => ({
    title: `${series.stream}: ${series.column}`,
    lines: [{ label: "now", series, ts: timeline.ts }],
    band: bands.find(({ stream, column, reason }) => stream === series.stream && column === series.column && reason === null),
  }));
  return (
    <>
      <ChartGroup charts={charts} first={Math.max(1, ownCount)} span={span} choose={choose} />
      {timeline.missing.map(({ stream, reason }) => (
        <p key={stream} className="note">
          {stream}: {reason}
        </p>
      ))}
      {bands.map(({ recall, reason, since }) => (
        <p key={recall} className="note">
          {reason !== null && `No usual range of ${recall}: ${reason}`}
          {reason === null && since && `Usual range of ${recall}: of rows since ${formatMinute(since)}, as earlier ones are too many for a chart`}
        </p>
      ))}
    </>
  );
}

interface ContextProps {
  event: EventDetails | null;
  hits: readonly { shared: readonly [string, number][] }[];
  hasContexts: boolean;
}

function ContextCard({ event, hits, hasContexts }: ContextProps) {
  if (event === null) {
    return null;
  }
  const best = new Map(hits[0]?.shared ?? []);
  return (
    <Card isCompact>
      <CardTitle component="h2">Context</CardTitle>
      <CardBody>
        <RowsTable rows={[event.attributes as Row]} label="Attributes of the event" />
        {event.contexts === null && (
          <p className="note">{hasContexts ? "The context is not computed yet." : "The rule of this alert has no context."}</p>
        )}
        {best.size > 0 && <p className="note">Marked: distinguishing terms of the most similar past alert.</p>}
        {[...listTerms(event.contexts)].map(([name, terms]) => (
          <div key={name}>
            <h3>{name}</h3>
            <ul className="terms">
              {terms.map((term) => (
                <li key={term} className={best.has(term) ? "term shared" : "term"}>
                  <LongText text={term} length={100} />
                </li>
              ))}
              {!terms.length && <li className="note">empty</li>}
            </ul>
            {event.truncated[name] && <p className="note">Truncated: {event.truncated[name]} rows before.</p>}
          </div>
        ))}
        {Object.entries(event.surroundings ?? {}).map(([name, rows]) => (
          <FoldedSection key={name} title={`Surroundings: ${name} (${rows.length})`}>
            {() => <RowsTable rows={rows as Row[]} label={name} />}
          </FoldedSection>
        ))}
      </CardBody>
    </Card>
  );
}

/** Whether the text says what the kind of the note says: it is stored if nothing is written. */
function isDefaultText({ kind, text, assignee }: AlertDetails["notes"][number]): boolean {
  return (kind === "ack" && text === "acknowledged") || (kind === "assign" && text === `assigned to ${assignee}`);
}

const NOTE_TITLES: Record<string, string> = {
  ack: "acknowledged",
  assign: "assigned",
  note: "noted",
  checked: "checked",
  proposal: "proposes that this fixed it",
  resolution: "resolved",
};

function NotesCard({ alert, reload }: { alert: AlertDetails; reload: () => void }) {
  const isOperator = useIsOperator();
  const [problem, setProblem] = useState("");
  const proposal = alert.notes.findLastIndex(({ kind }) => kind === "proposal");
  const isUnconfirmed = !alert.notes.slice(proposal + 1).some(({ kind }) => kind === "resolution");
  async function confirm(): Promise<void> {
    setProblem("");
    await post(`/alerts/${alert.id}/confirm`, {}).then(reload, (error) => setProblem(describeProblem("Confirm", error)));
  }

  return (
    <Card isCompact>
      <CardTitle component="h2">What was done</CardTitle>
      <CardBody>
        {!alert.notes.length && <p className="note">Nothing yet.</p>}
        <ol className="notes">
          {alert.notes.map((note, index) => (
            <li key={index}>
              <strong>{note.author}</strong> {NOTE_TITLES[note.kind] ?? note.kind}
              {note.assignee && ` to ${note.assignee}`}{" "}
              <RemedyLabels remedy={note} />
              {!isDefaultText(note) && (
                <p>
                  <LongText text={note.text} length={1_000} />
                </p>
              )}
              {note.result && (
                <p>
                  <LongText text={note.result} length={1_000} />
                </p>
              )}
              {note.outcome && note.outcome !== "open" && <Label isCompact>{note.outcome}</Label>}
              {index === proposal && isUnconfirmed && isOperator && (
                <Button size="sm" variant="secondary" onClick={() => void confirm()}>
                  Confirm
                </Button>
              )}
              <p className="note">
                <Time value={note.at} />
              </p>
            </li>
          ))}
        </ol>
        <div role="alert">{problem && <Message isInline isPlain variant="danger" title={problem} />}</div>
      </CardBody>
    </Card>
  );
}

interface ConditionProps {
  alert: AlertDetails;
  decisions: readonly HistoryChange[];
  /** Whether recalls still read history. */
  isReading: boolean;
}

/** The condition by which history decides on the alert, and its decisions so far. */
function ConditionCard({ alert, decisions, isReading }: ConditionProps) {
  const condition = useRule(alert.rule, alert.version)?.where;
  if (!condition && !decisions.length) {
    return null;
  }
  const outcomes: Record<string, string> = {
    waiting: "waiting for answers",
    kept: "true: the alert is kept",
    withdrawn: "false: the alert is withdrawn",
    no_history: "no answer to use: the alert is kept",
  };
  return (
    <Card isCompact>
      <CardTitle component="h2">Condition on its history</CardTitle>
      <CardBody>
        {condition && <code>{condition}</code>}
        <p>
          {alert.history ? outcomes[alert.history] ?? alert.history : "not decided yet"}
          {alert.history && !alert.history_final && isReading && ", until more of the history is read"}
        </p>
        {decisions.length > 0 && (
          <ol className="decisions">
            {decisions.map((decision, index) => (
              <li key={index}>
                <HistoryLabel history={decision.history} /> {decision.reason}{" "}
                <span className="note">
                  {decision.final && "final, "}
                  <Time value={decision.at} brief />
                </span>
              </li>
            ))}
          </ol>
        )}
      </CardBody>
    </Card>
  );
}

function applyEvent(report: AlertReport, { kind, data }: LiveEvent): AlertReport {
  if (kind === "revision") {
    return { ...report, recalls: withRevision(report.recalls, data as unknown as Revision) };
  }
  if (kind === "recall") {
    const recalls = report.recalls.map((answer) => (answer.id === data.id ? { ...answer, state: String(data.state) } : answer));
    return { ...report, recalls };
  }
  if (kind === "alert") {
    return { ...report, alert: { ...report.alert, ...(data as Partial<Alert>) } };
  }
  return report;
}
