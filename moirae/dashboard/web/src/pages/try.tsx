import { Alert as Message, Button, Card, CardBody, CardTitle, Form, FormGroup, FormSelect, FormSelectOption, PageSection, Progress, TextInput, Title } from "../components/library";
import { type FormEvent, useRef, useState } from "react";
import { Link, useParams, useSearchParams } from "react-router";
import { type ChangedAlert, type ChangedRule, type Problem, type RuleCheck, type RuleStep, type RuleText, describeProblem, get, post } from "../api";
import { type Backtest, type BacktestRequest, useBacktest, useSettled } from "../backtests";
import { Missing, Pending, formatCount, useTitle } from "../components/common";
import { Editor, ProblemList } from "../components/editor";
import { DataTable } from "../components/rows";
import { AlertStrip, describeLabels } from "../components/strip";
import { LongText, MarkedText } from "../components/text";
import { useLoaded } from "../load";
import { useIsAdmin, useIsOperator } from "../session";
import { formatMinute } from "../time";

const READ_DELAY = 200; // milliseconds without a change after which a draft is read
const CHECK_DELAY = 900; // milliseconds without a change after which its queries are checked
const RANGES = ["1d", "7d", "30d", "90d"];
const SHOWN_ALERTS = 50; // that differ
const SIGNS: Record<string, string> = { new: "+ new", gone: "− gone", moved: "~ moved" };

/** Try a change of a rule: edit it, see what is wrong in it and what it would have done, and apply it. */
export function TryPage() {
  const rule = useParams()["*"] ?? "";
  const isOperator = useIsOperator();
  const [parameters] = useSearchParams();
  useTitle(rule ? `Try a change of ${rule}` : "Try a rule");
  const text = useLoaded((signal) => (rule ? get<RuleText>(`/drafts/${rule}`, {}, signal) : Promise.resolve(null)), [rule]);
  if (text.isMissing) {
    return (
      <PageSection>
        <Missing title="There is no such rule">It may have been removed or renamed, or it is a rule of posted alerts.</Missing>
      </PageSection>
    );
  }
  if (!isOperator) {
    return (
      <PageSection>
        <Title headingLevel="h1">Try a change</Title>
        <p className="note">To try rules, log in with a token of the role operator.</p>
      </PageSection>
    );
  }
  if (rule && text.data === null) {
    return (
      <PageSection>
        <Title headingLevel="h1">{rule}</Title>
        <Pending error={text.error} lines={8} />
      </PageSection>
    );
  }
  const first = text.data?.content ?? makeRule(parameters.get("sql") ?? "SELECT …");
  return <Draft key={`${rule} ${text.data?.version} ${first}`} source={text.data} first={first} reload={text.reload} />;
}

/** A rule file whose rule has a query. */
function makeRule(sql: string): string {
  const lines = sql.trim().split("\n").map((line) => `      ${line}`.trimEnd());
  return `groups:\n- name: new\n  rules:\n  - alert: NewRule\n    expr: |\n${lines.join("\n")}\n    labels: {severity: ticket}\n`;
}

interface DraftProps {
  /** None: a new rule. */
  source: RuleText | null;
  first: string;
  reload: () => void;
}

function Draft({ source, first, reload }: DraftProps) {
  const rule = source?.rule ?? null;
  const [content, setContent] = useState(first);
  const [last, setLast] = useState("7d");
  const [tested, setTested] = useState<BacktestRequest | null>(null);
  const field = useRef<HTMLTextAreaElement>(null);
  const readContent = useSettled(content, READ_DELAY);
  const read = useLoaded(() => post<RuleCheck>("/drafts/read", { content: readContent, rule: rule ?? undefined }), [readContent]);
  const isRead = readContent === content && read.data !== null;
  const readProblems = read.data?.problems ?? [];
  const hasReadErrors = readProblems.some(isError);
  const checkedContent = useSettled(content, CHECK_DELAY);
  const isCheckable = isRead && !hasReadErrors && checkedContent === content;
  const check = useBacktest(isCheckable ? { content, rule, last: "1d", checkOnly: true } : null);
  const backtest = useBacktest(tested);
  const isChecked = isCheckable && check.status?.state === "done";
  const problems: readonly Problem[] = isChecked ? check.status?.problems ?? [] : readProblems;
  const isTestCurrent = tested !== null && tested.content === content && tested.last === last;
  return (
    <PageSection>
      <Title headingLevel="h1">{rule ? `${rule}: try a change` : "Try a rule"}</Title>
      <p className="note">
        {source === null && "A new rule. "}
        {source?.file && (
          <>
            From <code>{source.file}</code>, with the derived streams of its group.{" "}
          </>
        )}
        {source && !source.file && "As it is applied: no rule file of the workspace has this version. "}
        Nothing is stored, and nobody is told, until it is applied.
        {rule && (
          <>
            {" "}
            <Link to={`/rules/${rule}`}>The applied rule</Link>
          </>
        )}
      </p>
      <div className="try-grid">
        <Card isCompact>
          <CardTitle component="h2">Rule</CardTitle>
          <CardBody>
            <Editor id="draft" label="Rule, as YAML" text={content} change={setContent} problems={problems} field={field} />
            {content !== first && (
              <Button variant="link" isInline onClick={() => setContent(first)}>
                Undo all changes
              </Button>
            )}
          </CardBody>
        </Card>
        <div className="side">
          <Card isCompact>
            <CardTitle component="h2">Check</CardTitle>
            <CardBody>
              <CheckState isRead={isRead} hasErrors={problems.some(isError)} isChecked={isChecked} check={check} error={read.error} />
              {problems.length > 0 && <ProblemList problems={problems} field={field} />}
            </CardBody>
          </Card>
          <ApplyCard source={source} content={content} isChanged={source === null || content !== first} isValid={isChecked && !problems.some(isError)} reload={reload} />
        </div>
      </div>
      <Card isCompact className="backtest">
        <CardTitle component="h2">What it would have done</CardTitle>
        <CardBody>
          <form
            className="search"
            onSubmit={(event) => {
              event.preventDefault();
              setTested({ content, rule, last, checkOnly: false });
            }}
          >
            <FormSelect aria-label="Range" className="rule-select" value={last} onChange={(_, value) => setLast(value)}>
              {RANGES.map((name) => (
                <FormSelectOption key={name} value={name} label={`The last ${name.replace("d", Number(name.slice(0, -1)) === 1 ? " day" : " days")}`} />
              ))}
            </FormSelect>
            <Button type="submit" isDisabled={hasReadErrors || (isTestCurrent && backtest.isRunning)}>
              Back-test
            </Button>
            {backtest.isRunning && (
              <Button variant="secondary" onClick={backtest.cancel}>
                Stop
              </Button>
            )}
          </form>
          <BacktestResult backtest={backtest} isCurrent={isTestCurrent} isAsked={tested !== null} />
        </CardBody>
      </Card>
    </PageSection>
  );
}

function isError({ severity }: Problem): boolean {
  return severity === "error";
}

interface CheckProps {
  isRead: boolean;
  hasErrors: boolean;
  isChecked: boolean;
  check: Backtest;
  error: string | null;
}

function CheckState({ isRead, hasErrors, isChecked, check, error }: CheckProps) {
  const problem = error ?? check.error ?? (check.status?.state === "failed" ? check.status.error : null);
  const text = !isRead
    ? "Reading …"
    : hasErrors
      ? "It has errors."
      : isChecked
        ? "The rule is valid."
        : "YAML and keys are valid. Checking the queries …";
  return (
    <>
      <p role="status" className="note" aria-busy={!problem && !hasErrors && !isChecked ? true : undefined}>
        {problem ? "Not checked." : text}
      </p>
      {problem && <Message isInline isPlain variant="danger" title={problem} />}
    </>
  );
}

interface ApplyProps {
  source: RuleText | null;
  content: string;
  isChanged: boolean;
  isValid: boolean;
  reload: () => void;
}

function ApplyCard({ source, content, isChanged, isValid, reload }: ApplyProps) {
  const isAdmin = useIsAdmin();
  const [comment, setComment] = useState("");
  const [effect, setEffect] = useState<RuleStep | null>(null);
  const [problem, setProblem] = useState("");
  const [isSaving, setSaving] = useState(false);

  async function apply(event: FormEvent): Promise<void> {
    event.preventDefault();
    setProblem("");
    setSaving(true);
    try {
      const body = { content, rule: source?.rule, version: source?.version, comment: comment.trim() };
      setEffect(await post<RuleStep>("/drafts/apply", body));
      setComment("");
      reload();
    } catch (error) {
      setProblem(describeProblem("Apply", error));
    }
    setSaving(false);
  }

  return (
    <Card isCompact>
      <CardTitle component="h2">Apply</CardTitle>
      <CardBody>
        {source?.problem ? (
          <p className="note">
            Not here: <MarkedText text={source.problem} />.
          </p>
        ) : !isAdmin ? (
          <p className="note">To apply rules, log in with a token of the role admin.</p>
        ) : (
          <Form onSubmit={(event) => void apply(event)}>
            <FormGroup label="Why" fieldId="comment" isRequired>
              <TextInput id="comment" value={comment} maxLength={1_000} onChange={(_, value) => setComment(value)} isRequired />
            </FormGroup>
            <Button type="submit" isDisabled={!isChanged || !isValid || !comment.trim() || isSaving} isLoading={isSaving}>
              Apply
            </Button>
            <p className="note">All other rules stay. Rule files are not changed: put the text there, too, or the next <code>moirae rules apply</code> takes it back.</p>
          </Form>
        )}
        <div role="status">
          {effect && (
            <Message isInline isPlain variant="success" title={effect.action === "stay" ? "Nothing has changed." : `${effect.rule} is applied: ${effect.action}, version ${effect.after}.`} />
          )}
        </div>
        <div role="alert">{problem && <Message isInline isPlain variant="danger" title={problem} />}</div>
      </CardBody>
    </Card>
  );
}

interface ResultProps {
  backtest: Backtest;
  /** Whether it is of the text as it is now. */
  isCurrent: boolean;
  isAsked: boolean;
}

function BacktestResult({ backtest, isCurrent, isAsked }: ResultProps) {
  const { status, error, isRunning } = backtest;
  if (!isAsked) {
    return <p className="note">Alerts of both versions over the archive. Days are evaluated newest first; alerts come first, so a busy machine takes longer.</p>;
  }
  if (error) {
    return <Message isInline variant="danger" title={error} />;
  }
  const hasErrors = status?.problems.some(isError);
  return (
    <>
      {!isCurrent && <p className="note">Of the text before the last changes.</p>}
      {isRunning && (
        <Progress
          value={Math.round(100 * (status?.progress ?? 0))}
          title={status === null || status.state === "waiting" ? "Waits for the recall process" : "Evaluating, newest day first"}
          size="sm"
          aria-label="Back-test"
        />
      )}
      <p role="status" className="note">
        {hasErrors && "Not evaluated: the rule has errors."}
        {status?.state === "cancelled" && "Stopped; this is what was found."}
        {status?.state === "done" && !hasErrors && status.rules.length > 0 && "Complete."}
      </p>
      {status?.state === "failed" && <Message isInline variant="danger" title={status.error ?? "The back-test failed."} />}
      {status?.rules.map((rule) => (
        <RuleResult key={rule.rule} rule={rule} />
      ))}
    </>
  );
}

function RuleResult({ rule }: { rule: ChangedRule }) {
  if (rule.problem) {
    return <Message isInline variant="warning" title={`Not evaluated: ${rule.problem}`} />;
  }
  if (!rule.start || !rule.end) {
    return null;
  }
  const differing = [...rule.listed_before.filter(({ change }) => change === "gone"), ...rule.listed.filter(({ change }) => change !== "unchanged")];
  differing.sort((one, other) => Date.parse(other.fired_at ?? other.starts_at) - Date.parse(one.fired_at ?? one.starts_at));
  const listed = rule.before ? differing : [...rule.listed].reverse();
  const from = rule.evaluated_from ?? rule.end;
  return (
    <>
      <p>
        <strong>{formatCount(rule.alerts, "alert")}</strong> of {formatCount(rule.events, "event")} from {formatMinute(from)} to {formatMinute(rule.end)}
        {rule.hidden > 0 && `, ${rule.hidden.toLocaleString("en")} more hidden by where`}
        {rule.before && `; the applied version had ${(rule.unchanged + rule.moved + rule.gone).toLocaleString("en")}`}.
      </p>
      <AlertStrip rule={rule} />
      {rule.notes.map((note) => (
        <p key={note} className="note">
          {note}
        </p>
      ))}
      {listed.length > 0 && (
        <DataTable
          label={rule.before ? "Alerts that differ" : "Alerts"}
          columns={["Change", "Labels", "Fired", "Ended", "Rows"]}
          rows={listed.slice(0, SHOWN_ALERTS).map((alert) => [
            SIGNS[alert.change] ?? alert.change,
            <LongText key="labels" text={describeLabels(alert.labels)} />,
            alert.fired_at ? formatMinute(alert.fired_at) : "never",
            alert.ends_at ? formatMinute(alert.ends_at) : "not yet",
            <RowLinks key="rows" alert={alert} />,
          ])}
        />
      )}
      {listed.length > SHOWN_ALERTS && <p className="note">{formatCount(listed.length - SHOWN_ALERTS, "more alert")}</p>}
    </>
  );
}

/** The queries for the rows that decided an alert. */
function RowLinks({ alert }: { alert: ChangedAlert }) {
  return (
    <>
      {Object.entries(alert.rows).map(([stream, sql]) => (
        <Link key={stream} to={`/query?sql=${encodeURIComponent(sql)}`}>
          {stream}{" "}
        </Link>
      ))}
    </>
  );
}
