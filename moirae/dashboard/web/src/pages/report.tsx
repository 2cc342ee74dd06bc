import { Card, CardBody, CardTitle, FormSelect, FormSelectOption, PageSection, Title } from "../components/library";
import { useState } from "react";
import { Link } from "react-router";
import { type RuleWeek, get } from "../api";
import { Pending, formatCount, formatShort, useTitle } from "../components/common";
import { DataTable } from "../components/rows";
import { useLoaded } from "../load";
import { formatDay, formatDuration } from "../time";

const WEEKS = [1, 4, 12, 26, 52];
const MAX_BARS = 20; // rules in the picture
const BAR = 18; // pixels

/** What rules are worth: what became of their alerts, by rule and week. */
export function ReportPage() {
  useTitle("Worth of rules");
  const [weeks, setWeeks] = useState(4);
  const rows = useLoaded((signal) => get<RuleWeek[]>("/overview/report", { weeks }, signal), [weeks]);
  return (
    <PageSection>
      <Title headingLevel="h1">Worth of rules</Title>
      <p className="note">
        What became of alerts. For nothing: somebody was told, and nobody acknowledged or resolved them with a tag. <Link to="/rules">All rules</Link>
      </p>
      <div className="search">
        <FormSelect aria-label="Weeks" className="rule-select" value={weeks} onChange={(_, value) => setWeeks(Number(value))}>
          {WEEKS.map((count) => (
            <FormSelectOption key={count} value={count} label={`The last ${formatCount(count, "week")}`} />
          ))}
        </FormSelect>
      </div>
      {rows.data === null ? (
        <Pending error={rows.error} />
      ) : !rows.data.length ? (
        <p className="note">No alerts and no recalls in these weeks.</p>
      ) : (
        <div className="report-cards">
          <Card isCompact>
            <CardTitle component="h2">Alerts by rule</CardTitle>
            <CardBody>
              <Bars rows={rows.data} />
            </CardBody>
          </Card>
          <Card isCompact>
            <CardTitle component="h2">By rule and week</CardTitle>
            <CardBody>
              <DataTable label="Worth of rules" columns={["Week", "Rule", "Alerts", "Told", "For nothing", "Acknowledged", "Minutes to it", "With tag", "Withdrawn", "Flapping", "Recalls"]} rows={rows.data.map(describeWeek)} />
            </CardBody>
          </Card>
        </div>
      )}
    </PageSection>
  );
}

function describeWeek(row: RuleWeek) {
  return [
    formatDay(row.week),
    <Link key="rule" to={`/rules/${row.rule}`}>
      {row.rule}
    </Link>,
    row.alerts,
    row.told,
    row.for_nothing,
    row.acknowledged,
    row.minutes_to_acknowledge === null ? "–" : formatShort(row.minutes_to_acknowledge),
    row.tagged,
    row.withdrawn,
    row.flapping,
    row.recall_seconds ? formatDuration(row.recall_seconds * 1_000) : "–",
  ];
}

interface Sum {
  rule: string;
  alerts: number;
  nothing: number;
}

/** The rules that wake people for nothing, first. */
function Bars({ rows }: { rows: readonly RuleWeek[] }) {
  const sums = new Map<string, Sum>();
  for (const { rule, alerts, for_nothing } of rows) {
    const sum = sums.get(rule) ?? { rule, alerts: 0, nothing: 0 };
    sums.set(rule, { rule, alerts: sum.alerts + alerts, nothing: sum.nothing + for_nothing });
  }
  const sorted = [...sums.values()].sort((one, other) => other.nothing - one.nothing || other.alerts - one.alerts);
  const shown = sorted.slice(0, MAX_BARS);
  const highest = Math.max(1, ...shown.map(({ alerts }) => alerts));
  return (
    <figure className="strip">
      <ol className="bars">
        {shown.map(({ rule, alerts, nothing }) => (
          <li key={rule}>
            <Link to={`/rules/${rule}`}>{rule}</Link>
            <svg width="100%" height={BAR} role="img" aria-label={`${nothing} of ${alerts} for nothing`}>
              <rect x="0" width={`${(100 * alerts) / highest}%`} height={BAR} className="strip-unchanged" />
              <rect x="0" width={`${(100 * nothing) / highest}%`} height={BAR} className="strip-gone" />
            </svg>
            <span className="note">
              {nothing.toLocaleString("en")} of {alerts.toLocaleString("en")}
            </span>
          </li>
        ))}
      </ol>
      <figcaption className="strip-legend">
        <span className="legend-gone">for nothing</span>
        <span className="legend-unchanged">other alerts</span>
      </figcaption>
    </figure>
  );
}
