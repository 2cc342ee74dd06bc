import { Alert as Message, Button, Card, CardBody, CardTitle, FormSelect, FormSelectOption, PageSection, Title } from "../components/library";
import { type FormEvent, useEffect, useRef, useState } from "react";
import { useNavigate, useSearchParams } from "react-router";
import { type Answer, type QueryState, type Revision, type Row, type StartedQuery, get, post } from "../api";
import { coverageOf } from "../answers";
import { ChartGroup } from "../components/chart";
import { formatCount, useTitle } from "../components/common";
import { CoverageBar } from "../components/coverage";
import { Editor } from "../components/editor";
import { RowsTable } from "../components/rows";
import { listCharts } from "../row-charts";
import { useIsOperator } from "../session";

const POLL_INTERVAL = 300; // milliseconds
const KEEP_ALIVE_INTERVAL = 8_000; // milliseconds: without one for 30 s the query is suspended
const TIME_LIMIT = 300_000; // milliseconds, as `moirae query`
const OPEN_STATES = ["waiting", "running", "deferred", "suspended"];
const ROW_LIMITS = [100, 1_000, 10_000];
const FIRST_CHARTS = 3;
const SPANS = [
  ["", "All of the archive"],
  ["1h", "The last hour"],
  ["1d", "The last day"],
  ["7d", "The last 7 days"],
  ["30d", "The last 30 days"],
] as const;
const EXAMPLE = "SELECT host, avg(cpu) AS mean, count(*) AS n FROM cpu GROUP BY host";

interface Asked {
  sql: string;
  since: string;
  limit: number;
}

/** SQL over the archive: the answer is refined while history is read, newest chunks first. */
export function QueryPage() {
  useTitle("Query");
  const isOperator = useIsOperator();
  const navigate = useNavigate();
  const [parameters, setParameters] = useSearchParams();
  const given = parameters.get("sql") ?? "";
  const [sql, setSql] = useState(given);
  const [since, setSince] = useState("");
  const [limit, setLimit] = useState(ROW_LIMITS[0]);
  const field = useRef<HTMLTextAreaElement>(null);
  const query = useQuery();
  useEffect(() => setSql((text) => given || text), [given]);

  function run(event: FormEvent): void {
    event.preventDefault();
    if (sql.trim()) {
      setParameters({ sql }, { replace: true });
      query.run({ sql, since, limit });
    }
  }

  if (!isOperator) {
    return (
      <PageSection>
        <Title headingLevel="h1">Query</Title>
        <p className="note">To query the archive, log in with a token of the role operator.</p>
      </PageSection>
    );
  }
  return (
    <PageSection>
      <Title headingLevel="h1">Query</Title>
      <p className="note">
        Spark SQL over streams, relations and derived streams of the archive, newest chunks first. For example <code>{EXAMPLE}</code>
      </p>
      <form onSubmit={run}>
        <Editor id="sql" label="SQL" text={sql} change={setSql} minLines={4} field={field} />
        <div className="search">
          <FormSelect aria-label="How far back" className="rule-select" value={since} onChange={(_, value) => setSince(value)}>
            {SPANS.map(([value, label]) => (
              <FormSelectOption key={value} value={value} label={label} />
            ))}
          </FormSelect>
          <FormSelect aria-label="Rows of a query without aggregates" className="rule-select" value={limit} onChange={(_, value) => setLimit(Number(value))}>
            {ROW_LIMITS.map((count) => (
              <FormSelectOption key={count} value={count} label={`At most ${formatCount(count, "row")}`} />
            ))}
          </FormSelect>
          <Button type="submit" isDisabled={!sql.trim() || query.isRunning}>
            Run
          </Button>
          {query.isRunning && (
            <Button variant="secondary" onClick={query.stop}>
              Stop
            </Button>
          )}
          <Button variant="secondary" isDisabled={!sql.trim()} onClick={() => navigate(`/try?sql=${encodeURIComponent(sql)}`)}>
            Make this a rule
          </Button>
        </div>
      </form>
      <div role="alert">{query.problem && <Message isInline variant="danger" title={query.problem} />}</div>
      <div className="query-answer" aria-busy={query.isRunning && !query.revision ? true : undefined}>
        <QueryAnswer query={query} />
      </div>
    </PageSection>
  );
}

interface Query {
  state: QueryState | null;
  revision: Revision | null;
  problem: string;
  isRunning: boolean;
  run: (asked: Asked) => void;
  /** End it with the answer so far. */
  stop: () => void;
}

/** One query at a time; it ends with the page. */
function useQuery(): Query {
  const [asked, setAsked] = useState<(Asked & { number: number }) | null>(null);
  const [state, setState] = useState<QueryState | null>(null);
  const [revision, setRevision] = useState<Revision | null>(null);
  const [problem, setProblem] = useState("");
  const [isRunning, setRunning] = useState(false);
  const id = useRef<string | null>(null);

  useEffect(() => {
    if (asked === null) {
      return;
    }
    let isLeft = false;
    id.current = null;
    setState(null);
    setRevision(null);
    setProblem("");
    setRunning(true);

    async function follow({ sql, since, limit }: Asked): Promise<void> {
      const started = await post<StartedQuery>("/queries", { sql, limit, ...(since && { since }) });
      if (isLeft) {
        return command(started.id, "cancel");
      }
      id.current = started.id;
      const deadline = Date.now() + TIME_LIMIT;
      let keepAliveAt = Date.now();
      let number = 0;
      let isFinalized = false;
      while (!isLeft) {
        const present = await get<QueryState>(`/recalls/${started.id}`);
        if (present.revision > number) {
          const revisions = await get<Revision[]>(`/recalls/${started.id}/revisions`, { after: Math.max(number, present.revision - 1) });
          const newest = revisions.at(-1);
          if (newest && !isLeft) {
            number = newest.number;
            setRevision(newest);
          }
        }
        if (isLeft) {
          break;
        }
        setState(present);
        if (!OPEN_STATES.includes(present.state)) {
          if (present.state === "failed") {
            setProblem(`The query failed: ${present.error ?? ""}`);
          }
          return;
        }
        if (Date.now() - keepAliveAt > KEEP_ALIVE_INTERVAL) {
          keepAliveAt = Date.now();
          await post(`/queries/${started.id}/keep-alive`, {});
        }
        if (Date.now() > deadline && !isFinalized) {
          isFinalized = true;
          await command(started.id, "finalize");
        }
        await new Promise((resolve) => window.setTimeout(resolve, POLL_INTERVAL));
      }
      await command(started.id, "cancel");
    }

    follow(asked).then(
      () => !isLeft && setRunning(false),
      (error: Error) => {
        if (!isLeft) {
          setProblem(error.message);
          setRunning(false);
        }
      },
    );
    return () => {
      isLeft = true;
    };
  }, [asked]);

  return {
    state,
    revision,
    problem,
    isRunning,
    run: (next) => setAsked({ ...next, number: (asked?.number ?? 0) + 1 }),
    stop: () => {
      if (id.current) {
        void command(id.current, "finalize");
      }
    },
  };
}

/** Ends a query; if that fails, it is suspended for want of keep-alives, and ends later. */
async function command(id: string, verb: "cancel" | "finalize"): Promise<void> {
  await post("/commands", { command: verb, id }).catch(() => undefined);
}

function QueryAnswer({ query }: { query: Query }) {
  const { state, revision } = query;
  if (!state) {
    return null;
  }
  const rows = (revision?.rows ?? []) as Row[];
  const coverage = revision && coverageOf(revision as unknown as Answer);
  const answer = { ...state, recall: "query", coverage, remaining_seconds: null } as unknown as Answer;
  const charts = listCharts(rows);
  return (
    <>
      <Card isCompact>
        <CardTitle component="h2">
          {revision ? formatCount(rows.length, "row") : "No answer yet"}
          {revision && !revision.final && ", so far"}
        </CardTitle>
        <CardBody>
          <CoverageBar answer={answer} />
        </CardBody>
      </Card>
      {charts.charts.length > 0 && (
        <Card isCompact>
          <CardTitle component="h2">Over time (UTC)</CardTitle>
          <CardBody>
            <ChartGroup charts={charts.charts} first={FIRST_CHARTS} span={charts.span} />
          </CardBody>
        </Card>
      )}
      {rows.length > 0 && (
        <Card isCompact>
          <CardBody>
            <RowsTable rows={rows} label="Rows of the answer" />
          </CardBody>
        </Card>
      )}
    </>
  );
}
