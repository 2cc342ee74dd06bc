// Alerts of two versions of a rule over time, one above the other.

import type { ChangedAlert, ChangedRule } from "../api";
import { formatCount } from "./common";
import { formatDay, formatMinute } from "../time";

const LANE = 26; // height of a version in the picture, in pixels
const GAP = 8;
const AXIS = 18;
const MIN_WIDTH = 0.25; // percent: a short alert is seen, too
const MAX_TICKS = 8;
const DAY = 86_400_000; // milliseconds
const HOUR = 3_600_000; // milliseconds

interface Lane {
  title: string;
  alerts: readonly ChangedAlert[];
}

/** A strip of alerts for each version. What is not evaluated yet is hatched. */
export function AlertStrip({ rule }: { rule: ChangedRule }) {
  if (!rule.start || !rule.end) {
    return null;
  }
  const start = Date.parse(rule.start);
  const end = Math.max(Date.parse(rule.end), start + 1);
  const scale = (time: number) => (100 * (Math.min(Math.max(time, start), end) - start)) / (end - start);
  const lanes: Lane[] = [
    ...(rule.before ? [{ title: "applied", alerts: rule.listed_before }] : []),
    { title: rule.before ? "changed" : "new rule", alerts: rule.listed },
  ];
  const height = lanes.length * (LANE + GAP) + AXIS;
  const evaluated = rule.evaluated_from ? scale(Date.parse(rule.evaluated_from)) : 100;
  return (
    <figure className="strip">
      <div className="strip-lanes">
        <div className="strip-names" aria-hidden>
          {lanes.map(({ title }) => (
            <span key={title}>{title}</span>
          ))}
        </div>
        <svg width="100%" height={height} role="img" aria-label={describe(rule, lanes)}>
          <defs>
            <pattern id="unread" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">
              <line x1="0" y1="0" x2="0" y2="6" className="strip-hatch" />
            </pattern>
          </defs>
          {lanes.map(({ title, alerts }, index) => (
            <g key={title}>
              <rect x="0" width="100%" y={index * (LANE + GAP)} height={LANE} className="strip-lane" />
              {evaluated > 0 && <rect x="0" width={`${evaluated}%`} y={index * (LANE + GAP)} height={LANE} fill="url(#unread)" />}
              {alerts.map((alert, position) => {
                const from = scale(Date.parse(alert.fired_at ?? alert.starts_at));
                const to = alert.ends_at ? scale(Date.parse(alert.ends_at)) : 100;
                const width = Math.max(MIN_WIDTH, to - from);
                return (
                  <rect
                    key={position}
                    x={`${Math.min(from, 100 - MIN_WIDTH)}%`}
                    width={`${width}%`}
                    y={index * (LANE + GAP) + inset(alert)}
                    height={LANE - 2 * inset(alert)}
                    className={`strip-${alert.change}`}
                  >
                    <title>{describeAlert(alert)}</title>
                  </rect>
                );
              })}
            </g>
          ))}
          {listTicks(start, end).map(({ time, text }) => (
            <text key={time} x={`${scale(time)}%`} y={height - 4} className="strip-tick" textAnchor={scale(time) > 92 ? "end" : scale(time) < 4 ? "start" : "middle"}>
              {text}
            </text>
          ))}
        </svg>
      </div>
      <figcaption className="strip-legend">
        {rule.before && (
          <>
            <span className="legend-unchanged">{rule.unchanged.toLocaleString("en")} unchanged</span>
            <span className="legend-moved">{rule.moved.toLocaleString("en")} moved</span>
            <span className="legend-gone">{rule.gone.toLocaleString("en")} gone</span>
          </>
        )}
        <span className="legend-new">{rule.new.toLocaleString("en")} new</span>
      </figcaption>
    </figure>
  );
}

/** Unchanged alerts are thinner: the difference is not in the color alone. */
function inset(alert: ChangedAlert): number {
  return alert.change === "unchanged" ? 8 : 3;
}

function describe(rule: ChangedRule, lanes: readonly Lane[]): string {
  const counts = lanes.map(({ title, alerts }) => `${title}: ${formatCount(alerts.length, "alert")}`);
  return `Alerts from ${formatMinute(rule.start as string)} to ${formatMinute(rule.end as string)}. ${counts.join(", ")}.`;
}

function describeAlert({ change, fired_at, ends_at, labels }: ChangedAlert): string {
  const ended = ends_at ? `ended ${formatMinute(ends_at)}` : "has not ended";
  return `${change}: ${describeLabels(labels)}, fired ${fired_at ? formatMinute(fired_at) : "never"}, ${ended}`;
}

/** `host=web-1, severity=page` */
export function describeLabels(labels: Record<string, string>): string {
  return Object.entries(labels)
    .filter(([name]) => name !== "alertname")
    .map(([name, value]) => `${name}=${value}`)
    .join(", ");
}

/** Midnights, or full hours of a short range. */
function listTicks(start: number, end: number): { time: number; text: string }[] {
  const isShort = end - start <= 2 * DAY;
  const unit = isShort ? HOUR : DAY;
  const step = unit * Math.max(1, Math.ceil((end - start) / unit / MAX_TICKS));
  const ticks = [];
  for (let time = Math.ceil(start / step) * step; time <= end; time += step) {
    const text = isShort ? new Date(time).toISOString().slice(11, 16) : formatDay(time).slice(5);
    ticks.push({ time, text });
  }
  return ticks;
}
