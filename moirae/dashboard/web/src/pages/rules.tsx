import { Alert as Message, Button, Card, CardBody, CardTitle, EmptyState, EmptyStateBody, FormSelect, FormSelectOption, PageSection, TextInput, Title } from "../components/library";
import { useState } from "react";
import { Link, useParams } from "react-router";
import { type AppliedRule, type Row, type RuleDetails, describeProblem, get, post } from "../api";
import { Missing, Pending, StateLabel, Time, useTitle } from "../components/common";
import { DataTable, RowsTable } from "../components/rows";
import { cutText } from "../components/text";
import { useLoaded } from "../load";
import { findDefinition } from "../rule";
import { formatDuration } from "../time";
import { useIsOperator } from "../session";

const INTERVAL = 10_000; // milliseconds
const PAGE_SIZE = 100;
const MAX_ERROR = 200; // characters of an error in the list
const STATES = ["running", "quarantined", "disabled", "not started yet"];

export function RulesPage() {
  const rule = useParams()["*"];
  return rule ? <RulePage key={rule} rule={rule} /> : <RuleList />;
}

function RuleList() {
  useTitle("Rules");
  const [search, setSearch] = useState("");
  const [state, setState] = useState("");
  const [sort, setSort] = useState("name");
  const [offset, setOffset] = useState(0);
  const selection = { search: search || undefined, state: state || undefined, sort, offset, limit: PAGE_SIZE + 1 };
  const rules = useLoaded((signal) => get<AppliedRule[]>("/rules", selection, signal), [search, state, sort, offset], INTERVAL);
  const isFiltered = Boolean(search || state || offset);
  const shown = (rules.data ?? []).slice(0, PAGE_SIZE);
  return (
    <PageSection>
      <Title headingLevel="h1">Rules</Title>
      <p className="line">
        <Link to="/try">Try a new rule</Link> <Link to="/report">Worth of rules</Link> <Link to="/network">Network</Link>
      </p>
      <form role="search" className="search" onSubmit={(event) => event.preventDefault()}>
        <TextInput
          type="search"
          aria-label="Part of the name"
          placeholder="Part of the name"
          value={search}
          maxLength={200}
          onChange={(_, value) => {
            setSearch(value);
            setOffset(0);
          }}
        />
        <FormSelect
          aria-label="State"
          className="rule-select"
          value={state}
          onChange={(_, value) => {
            setState(value);
            setOffset(0);
          }}
        >
          <FormSelectOption value="" label="All states" />
          {STATES.map((name) => (
            <FormSelectOption key={name} value={name} label={name} />
          ))}
        </FormSelect>
        <FormSelect
          aria-label="Order"
          className="rule-select"
          value={sort}
          onChange={(_, value) => {
            setSort(value);
            setOffset(0);
          }}
        >
          <FormSelectOption value="name" label="By name" />
          <FormSelectOption value="cost" label="Most expensive first" />
        </FormSelect>
      </form>
      {rules.data === null ? (
        <Pending error={rules.error} />
      ) : !shown.length ? (
        <EmptyState titleText={isFiltered ? "No such rule" : "No rule is applied"} headingLevel="h2">
          <EmptyStateBody>
            {isFiltered ? (
              "No applied rule has this name and state."
            ) : (
              <>
                Write rules, then apply them: <code>moirae rules apply</code>. Without a rule nothing is watched.
              </>
            )}
          </EmptyStateBody>
        </EmptyState>
      ) : (
        <DataTable
          label="Rules"
          columns={["Rule", "State", "Firing", "Alerts", "Last firing", "Evaluation (last hour)", "Lost verdicts", "Recalls", "Cost of recalls", "Error"]}
          rows={shown.map((rule) => [
            <Link key="rule" to={`/rules/${rule.rule}`}>
              {rule.rule}
            </Link>,
            <StateLabel key="state" state={rule.state} />,
            rule.firing,
            rule.alerts,
            rule.last_fired_at ? <Time key="last" value={rule.last_fired_at} brief /> : "never",
            rule.seconds ? formatDuration(rule.seconds * 1_000) : "–",
            rule.lost || "–",
            rule.recalls,
            rule.recalls ? formatDuration(rule.recall_seconds * 1_000) : "–",
            <RuleError key="error" rule={rule} />,
          ])}
        />
      )}
      <p className="line">
        {(offset > 0 || (rules.data?.length ?? 0) > PAGE_SIZE) && (
          <span className="note">
            Rules {(offset + 1).toLocaleString("en")} to {(offset + shown.length).toLocaleString("en")}{" "}
          </span>
        )}
        {offset > 0 && (
          <Button variant="secondary" onClick={() => setOffset(Math.max(0, offset - PAGE_SIZE))}>
            Previous rules
          </Button>
        )}{" "}
        {(rules.data?.length ?? 0) > PAGE_SIZE && (
          <Button variant="secondary" onClick={() => setOffset(offset + PAGE_SIZE)}>
            Next rules
          </Button>
        )}
      </p>
    </PageSection>
  );
}

/** Why a rule has not evaluated all rows, and from which event time on. */
function RuleError({ rule }: { rule: AppliedRule }) {
  if (rule.state !== "quarantined" && rule.error === null) {
    return null;
  }
  return (
    <>
      Not evaluated from {rule.settled_to ? <Time value={rule.settled_to} brief /> : "the beginning"}
      {rule.error && `: ${cutText(rule.error, MAX_ERROR)}`}
    </>
  );
}

function RulePage({ rule }: { rule: string }) {
  useTitle(rule);
  const details = useLoaded((signal) => get<RuleDetails>(`/rules/${rule}`, {}, signal), [rule], INTERVAL);
  const explained = useLoaded((signal) => get<Row>(`/explain/${rule}`, {}, signal), [rule]);
  const isOperator = useIsOperator();
  const [effect, setEffect] = useState("");
  const [problem, setProblem] = useState("");

  async function resume(): Promise<void> {
    setProblem("");
    try {
      await post("/rules/resume", { rules: [rule] });
      setEffect("The quarantine has ended; the rule is evaluated from where it stopped.");
    } catch (error) {
      setProblem(describeProblem("End the quarantine", error));
    }
    details.reload();
  }

  if (details.isMissing) {
    return (
      <PageSection>
        <Missing title="There is no such rule">It may have been removed or renamed.</Missing>
      </PageSection>
    );
  }
  if (details.data === null) {
    return (
      <PageSection>
        <Title headingLevel="h1">{rule}</Title>
        <Pending error={details.error} lines={6} />
      </PageSection>
    );
  }
  const { name, state, errors, lost, version } = details.data;
  return (
    <PageSection>
      <Title headingLevel="h1">{name}</Title>
      <p className="line">
        <StateLabel state={state} /> version <code>{version}</code>{" "}
        <Link to={`/history?rule=${encodeURIComponent(name)}`}>Its alerts</Link>
        {isOperator && (
          <>
            {" "}
            <Link to={`/try/${name}`}>Try a change</Link>
          </>
        )}
      </p>
      {state === "quarantined" && isOperator && (
        <Button onClick={() => void resume()}>End the quarantine</Button>
      )}
      <div role="status">{effect && !problem && <Message isInline isPlain variant="success" title={effect} />}</div>
      <div role="alert">{problem && <Message isInline isPlain variant="danger" title={problem} />}</div>
      {errors.length > 0 && (
        <Card isCompact>
          <CardTitle component="h2">Errors</CardTitle>
          <CardBody>
            <RowsTable
              rows={errors.map(({ kind, message, times, first_at, last_at }) => ({ kind, message, times, first_at, last_at }))}
              label="Errors of the rule"
            />
          </CardBody>
        </Card>
      )}
      {lost.length > 0 && (
        <Card isCompact>
          <CardTitle component="h2">Rows without a verdict</CardTitle>
          <CardBody>
            <p className="note">The rule exceeded its limits for them. It is evaluated over all others.</p>
            <RowsTable
              rows={lost.map(({ ts, stream, reason, row, lost_at }) => ({ ts, stream, reason, row, lost_at }))}
              label="Rows without a verdict"
            />
          </CardBody>
        </Card>
      )}
      <div className="history-grid">
        <Card isCompact>
          <CardTitle component="h2">Definition</CardTitle>
          <CardBody>
            <Tree value={findDefinition(details.data)} />
          </CardBody>
        </Card>
        <Card isCompact>
          <CardTitle component="h2">How it is executed (durations in seconds)</CardTitle>
          <CardBody>
            {explained.data === null ? <Pending error={explained.error} /> : <Tree value={explained.data} />}
          </CardBody>
        </Card>
      </div>
    </PageSection>
  );
}

/** Nested values as nested lists; keys without a value are left out. */
function Tree({ value }: { value: unknown }) {
  if (Array.isArray(value)) {
    const isPlain = value.every((entry) => typeof entry !== "object");
    return isPlain ? <>{value.join(", ") || "none"}</> : <>{value.map((entry, index) => <Tree key={index} value={entry} />)}</>;
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).filter(([, entry]) => !isEmpty(entry));
    return (
      <dl className="tree">
        {entries.map(([name, entry]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <Tree value={entry} />
            </dd>
          </div>
        ))}
      </dl>
    );
  }
  const text = String(value).trimEnd();
  return text.includes("\n") || text.length > 60 ? <pre>{text}</pre> : <>{text}</>;
}

function isEmpty(value: unknown): boolean {
  return value === null || (typeof value === "object" && value !== null && !Object.keys(value).length);
}
