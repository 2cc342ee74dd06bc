import { Card, CardBody, CardTitle, PageSection, Title } from "../components/library";
import { Link, useParams } from "react-router";
import { type Answer, type EventDetails, type Hit, type Row, type Timeline, get } from "../api";
import { describeHit, describeLength, describeReturn, findRemedy, findSimilar, listTerms, sortSeries } from "../answers";
import { SeriesChart } from "../components/chart";
import { Missing, Pending, Time, describeKey, shortName, useTitle } from "../components/common";
import { DataTable, RowsTable } from "../components/rows";
import { useLoaded } from "../load";

interface Sides {
  now: EventDetails;
  past: EventDetails;
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
  const { now, past: then, hit } = sides.data;
  const shares = new Map(hit?.shared ?? []);
  return (
    <PageSection>
      <Title headingLevel="h1">{shortName(now.rule)}: now and then</Title>
      <p>
        Now: <Link to={`/alerts/${now.eid}`}>{describeKey(now.key)}</Link>, <Time value={now.ts} />
        <br />
        Then: <Link to={`/alerts/${then.eid}`}>{hit ? describeHit(hit) : describeKey(then.key)}</Link>, <Time value={then.ts} />
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
            <Terms now={now} past={then} shares={shares} />
          </CardBody>
        </Card>
        </div>
      </div>
    </PageSection>
  );
}

async function loadSides(event: string, past: string, signal: AbortSignal): Promise<Sides> {
  const [now, then, answers] = await Promise.all([
    get<EventDetails>(`/events/${encodeURIComponent(event)}`, {}, signal),
    get<EventDetails>(`/events/${encodeURIComponent(past)}`, {}, signal),
    get<Answer[]>(`/events/${encodeURIComponent(event)}/recalls`, {}, signal),
  ]);
  const hit = findSimilar(answers)?.hits?.find(({ eid }) => eid === then.eid);
  return { now, past: then, hit };
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
  const query = { before: 3_600, after: 3_600 };
  const now = useLoaded((signal) => get<Timeline>(`/events/${event}/timeline`, query, signal), [event]);
  const then = useLoaded((signal) => get<Timeline>(`/events/${past}/timeline`, query, signal), [past]);
  if (now.data === null || then.data === null) {
    return <Pending error={now.error ?? then.error} lines={4} />;
  }
  const timelines = { now: now.data, then: then.data };
  const names = new Set(sortSeries([...now.data.series, ...then.data.series], attributes).map(seriesName));
  return (
    <>
      {[...names].map((name) => (
        <SeriesChart
          key={name}
          title={name}
          lines={Object.entries(timelines).flatMap(([label, timeline]) => {
            const series = timeline.series.find((entry) => seriesName(entry) === name);
            return series ? [{ label, series, ts: timeline.ts }] : [];
          })}
        />
      ))}
      {Object.entries(timelines).flatMap(([label, timeline]) =>
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

function Terms({ now, past, shares }: { now: EventDetails; past: EventDetails; shares: Map<string, number> }) {
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
                shares.has(term) ? `${((shares.get(term) ?? 0) * 100).toFixed(1)} %` : "–",
              ])}
            />
          </div>
        );
      })}
    </>
  );
}
