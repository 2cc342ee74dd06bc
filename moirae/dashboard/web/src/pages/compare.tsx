import { Card, CardBody, CardTitle, PageSection, Title } from "../components/library";
import { useState } from "react";
import { Link, useParams } from "react-router";
import { type Alert, type Answer, type EventDetails, type Hit, type Row, type Timeline, get } from "../api";
import { describeLength, describeReturn, findRemedy, findSimilar, listTerms, sortSeries } from "../answers";
import { ChartGroup, DEFAULT_SPAN, type Span, SpanChoice } from "../components/chart";
import { Missing, Pending, Time, alertTitle, describeKey, shortName, useTitle } from "../components/common";
import { DataTable, RowsTable } from "../components/rows";
import { useLoaded } from "../load";

const COMPARED_CHARTS = 4; // that are shown at first

interface Sides {
  now: EventDetails;
  past: EventDetails;
  /** The summaries of their alerts, else their keys. */
  titles: { now: string; past: string };
  /** The past event as an answer of the present one; none if it is not among its most similar ones. */
  hit: Hit | undefined;
}

/** The context of an event against that of a past one, and the same streams then and now. */
export function ComparePage() {
  const { event = "", past = "" } = useParams();
  useTitle("Compare");
  const sides = useLoaded((signal) => loadSides(event, past, signal), [event, past]);
  if (sides.isMissing) {
    return (
      <PageSection>
        <Missing title="One of these events is not stored">It may have been deleted, or the address is incomplete.</Missing>
      </PageSection>
    );
  }
  if (sides.data === null) {
    return (
      <PageSection>
        <Title headingLevel="h1">Compare</Title>
        <Pending error={sides.error} lines={6} />
      </PageSection>
    );
  }
  const { now, past: then, hit, titles } = sides.data;
  const shares = new Map(hit?.shared ?? []);
  return (
    <PageSection>
      <Title headingLevel="h1">{shortName(now.rule)}: now and then</Title>
      <p>
        Now: <Link to={`/alerts/${now.eid}`}>{titles.now}</Link>, <Time value={now.ts} />
        <br />
        Then: <Link to={`/alerts/${then.eid}`}>{titles.past}</Link>, <Time value={then.ts} />
      </p>
      {hit ? <Past hit={hit} /> : <p className="note">Not among the most similar past alerts.</p>}
      <div className="compare-grid">
        <Card isCompact>
          <CardTitle component="h2">Streams, aligned at the alert</CardTitle>
          <CardBody>
            <AlignedCharts event={now.eid} past={then.eid} attributes={now.attributes} />
          </CardBody>
        </Card>
        <div className="side">
        <Card isCompact>
          <CardTitle component="h2">Attributes</CardTitle>
          <CardBody>
            <RowsTable rows={[now.attributes, then.attributes]} names={["now", "then"]} label="Attributes" />
          </CardBody>
        </Card>
        <Card isCompact>
          <CardTitle component="h2">Context term by term</CardTitle>
          <CardBody>
            <Terms now={now} past={then} shares={shares} isCompared={hit !== undefined} />
          </CardBody>
        </Card>
        </div>
      </div>
    </PageSection>
  );
}

async function loadSides(event: string, past: string, signal: AbortSignal): Promise<Sides> {
  const [now, then, answers, nowTitle, pastTitle] = await Promise.all([
    get<EventDetails>(`/events/${encodeURIComponent(event)}`, {}, signal),
    get<EventDetails>(`/events/${encodeURIComponent(past)}`, {}, signal),
    get<Answer[]>(`/events/${encodeURIComponent(event)}/recalls`, {}, signal),
    loadTitle(event, signal),
    loadTitle(past, signal),
  ]);
  const hit = findSimilar(answers)?.hits?.find(({ eid }) => eid === then.eid);
  const titles = { now: nowTitle ?? describeKey(now.key), past: pastTitle ?? describeKey(then.key) };
  return { now, past: then, hit, titles };
}

/** The title of the alert of an event; null without an alert. */
async function loadTitle(event: string, signal: AbortSignal): Promise<string | null> {
  return get<Alert>(`/alerts/${encodeURIComponent(event)}`, {}, signal).then(alertTitle, () => null);
}

/** What was done then, and how similar the two are. */
function Past({ hit }: { hit: Hit }) {
  const remedy = findRemedy(hit);
  const facts = [`Similarity ${hit.score.toFixed(2)}`, describeLength(hit), describeReturn(hit)].filter(Boolean);
  return (
    <p className="compare-past">
      {remedy && (
        <>
          What fixed it then: <strong>{remedy.text}</strong>
          <br />
        </>
      )}
      {facts.join(", ")}.{!remedy && " Nobody noted what was done."}
    </p>
  );
}

function AlignedCharts({ event, past, attributes }: { event: string; past: string; attributes: Row }) {
  const [span, setSpan] = useState(DEFAULT_SPAN);
  const { before, after } = span;
  const now = useLoaded((signal) => get<Timeline>(`/events/${event}/timeline`, { before, after }, signal), [event, before]);
  const then = useLoaded((signal) => get<Timeline>(`/events/${past}/timeline`, { before, after }, signal), [past, before]);
  return (
    <>
      <SpanChoice span={span} choose={setSpan} />
      {now.data === null || then.data === null ? (
        <Pending error={now.error ?? then.error} lines={4} />
      ) : (
        <Streams timelines={{ now: now.data, then: then.data }} attributes={attributes} span={span} />
      )}
    </>
  );
}

interface StreamsProps {
  timelines: { now: Timeline; then: Timeline };
  attributes: Row;
  span: Span;
}

function Streams({ timelines, attributes, span }: StreamsProps) {
  const entries = Object.entries(timelines);
  const all = entries.flatMap(([, { series }]) => series);
  const names = new Set(sortSeries(all, attributes).map(seriesName));
  const charts = [...names].map((title) => ({
    title,
    lines: entries.flatMap(([label, timeline]) => {
      const series = timeline.series.find((entry) => seriesName(entry) === title);
      return series ? [{ label, series, ts: timeline.ts }] : [];
    }),
  }));
  return (
    <>
      <ChartGroup charts={charts} first={COMPARED_CHARTS} span={span} />
      {entries.flatMap(([label, timeline]) =>
        timeline.missing.map(({ stream, reason }) => (
          <p key={label + stream} className="note">
            {stream}, {label}: {reason}
          </p>
        )),
      )}
    </>
  );
}

function seriesName({ stream, column }: { stream: string; column: string }): string {
  return `${stream}: ${column}`;
}

interface TermsProps {
  now: EventDetails;
  past: EventDetails;
  shares: Map<string, number>;
  /** Whether the two have a score: a shared term without a share adds nothing to it. */
  isCompared: boolean;
}

function Terms({ now, past, shares, isCompared }: TermsProps) {
  const nowTerms = listTerms(now.contexts);
  const pastTerms = listTerms(past.contexts);
  const names = new Set([...nowTerms.keys(), ...pastTerms.keys()]);
  if (!names.size) {
    return <p className="note">Neither event has a context.</p>;
  }
  return (
    <>
      {[...names].map((name) => {
        const present = new Set(nowTerms.get(name));
        const earlier = new Set(pastTerms.get(name));
        const terms = [...new Set([...present, ...earlier])];
        const rank = (term: string) => (present.has(term) && earlier.has(term) ? 1 + (shares.get(term) ?? 0) : present.has(term) ? 0.5 : 0);
        terms.sort((one, other) => rank(other) - rank(one) || one.localeCompare(other));
        return (
          <div key={name}>
            <h3>{name}</h3>
            <DataTable
              label={`Terms of ${name}`}
              columns={["term", "now", "then", "share of similarity"]}
              isNarrow
              rows={terms.map((term) => [
                <span key="term" className={present.has(term) && earlier.has(term) ? "term shared" : "term"}>
                  {term}
                </span>,
                present.has(term) ? "yes" : "–",
                earlier.has(term) ? "yes" : "–",
                isCompared && present.has(term) && earlier.has(term) ? `${((shares.get(term) ?? 0) * 100).toFixed(1)} %` : "–",
              ])}
            />
          </div>
        );
      })}
    </>
  );
}
