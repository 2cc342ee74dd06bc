// Charts of the rows of an answer: numbers over the first column of times.

import type { Row, Series } from "./api";
import type { Chart, Span } from "./components/chart";

const MAX_CHARTS = 12;
const TIME = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d/;

interface Charts {
  charts: Chart[];
  span: Span;
}

/** A chart for each column of numbers; none without a column of times, or with a single time. */
export function listCharts(rows: readonly Row[]): Charts {
  const none = { charts: [], span: { name: "", before: 0, after: 0 } };
  const columns = Object.keys(rows[0] ?? {});
  const time = columns.find((column) => rows.every((row) => isTime(row[column])));
  if (time === undefined) {
    return none;
  }
  const times = rows.map((row) => readTime(row[time]));
  const first = Math.min(...times);
  const last = Math.max(...times);
  if (first === last) {
    return none;
  }
  const numbers = columns.filter((column) => column !== time && rows.some((row) => typeof row[column] === "number"));
  const charts = numbers.slice(0, MAX_CHARTS).map((column) => {
    const series = { stream: "query", column, ...summarize(rows, times, column) } as unknown as Series;
    return { title: column, lines: [{ label: column, series, ts: new Date(last).toISOString() }] };
  });
  return { charts, span: { name: "all", before: (last - first) / 1_000, after: 0 } };
}

/** Mean, lowest and highest of the rows of each time. */
function summarize(rows: readonly Row[], times: readonly number[], column: string): object {
  const values = new Map<number, number[]>();
  rows.forEach((row, index) => {
    const value = row[column];
    if (typeof value === "number" && Number.isFinite(value)) {
      values.set(times[index], [...(values.get(times[index]) ?? []), value]);
    }
  });
  const sorted = [...values].sort(([one], [other]) => one - other);
  return {
    times: sorted.map(([time]) => new Date(time).toISOString()),
    mean: sorted.map(([, entries]) => entries.reduce((sum, value) => sum + value, 0) / entries.length),
    lowest: sorted.map(([, entries]) => Math.min(...entries)),
    highest: sorted.map(([, entries]) => Math.max(...entries)),
  };
}

function isTime(value: unknown): boolean {
  return typeof value === "string" && TIME.test(value) && !Number.isNaN(readTime(value));
}

/** Times without a zone are in UTC. */
function readTime(value: unknown): number {
  const text = String(value).replace(" ", "T");
  return Date.parse(/Z|[+-]\d\d:?\d\d$/.test(text) ? text : `${text}Z`);
}
