import "uplot/dist/uPlot.min.css";
import { useEffect, useId, useRef, useState } from "react";
import uPlot from "uplot";
import type { NormBand, Series } from "../api";
import { Button, ToggleGroup, ToggleGroupItem } from "./library";
import { formatCount, formatValue } from "./common";
import { usePrinting } from "../printing";
import { formatClock, formatTime } from "../time";

const HEIGHT = 130; // pixels
const MINUTE = 60_000; // milliseconds
const MIN_ZOOM = 10; // pixels that a selection has at least

export interface Line {
  label: string;
  series: Series;
  /** The time of the event, the zero of the axis. */
  ts: string;
}

export interface Chart {
  title: string;
  lines: Line[];
  /** What is usual at each time, of a chart with one line. */
  band?: NormBand;
}

/** Minutes from the event. */
type Range = [number, number];

/** Seconds before and after an event that a timeline shows. */
export interface Span {
  name: string;
  before: number;
  after: number;
}

export const SPANS: readonly Span[] = [
  { name: "15 min", before: 900, after: 900 },
  { name: "1 h", before: 3_600, after: 3_600 },
  { name: "6 h", before: 21_600, after: 21_600 },
  { name: "1 d", before: 86_400, after: 86_400 },
  { name: "7 d", before: 604_800, after: 604_800 },
];
export const DEFAULT_SPAN = SPANS[1];

/** Buttons for the range of charts around the event. */
export function SpanChoice({ span, choose }: { span: Span; choose: (span: Span) => void }) {
  return (
    <ToggleGroup isCompact className="chart-span" aria-label="Before and after the alert">
      {SPANS.map((entry) => (
        <ToggleGroupItem
          key={entry.name}
          text={`±\u00a0${entry.name}`}
          isSelected={entry === span}
          onChange={() => choose(entry)}
        />
      ))}
    </ToggleGroup>
  );
}

interface GroupProps {
  charts: Chart[];
  first: number;
  span: Span;
  /** Called with the time of a point that is clicked, in milliseconds. */
  choose?: (time: number) => void;
}

/**
 * Charts with one time axis: they are zoomed together, and the pointer shows the values of all of
 * them at its time. `first`: how many are shown at first. `span`: the range of the axis.
 */
export function ChartGroup({ charts, first, span, choose }: GroupProps) {
  const [areAllAskedFor, setAllShown] = useState(false);
  const areAllShown = usePrinting() || areAllAskedFor;
  const [zoom, setZoom] = useState<Range | null>(null);
  const group = useId();
  const all: Range = [-span.before / 60, span.after / 60];
  useEffect(() => setZoom(null), [all[0], all[1]]);
  return (
    <>
      {charts.length > 0 && (
        <p className="note chart-zoom">
          {zoom ? (
            <Button variant="link" isInline onClick={() => setZoom(null)}>
              Show the whole range
            </Button>
          ) : (
            "Drag over a part of a chart to enlarge it."
          )}
        </p>
      )}
      {charts.slice(0, areAllShown ? undefined : first).map(({ title, lines, band }) => (
        <SeriesChart key={title} title={title} lines={lines} band={band} range={zoom ?? all} zoom={setZoom} group={group} choose={choose} />
      ))}
      {charts.length > first && !areAllShown && (
        <Button variant="link" isInline onClick={() => setAllShown(true)}>
          Show {formatCount(charts.length - first, "more chart")}
        </Button>
      )}
    </>
  );
}

interface Props extends Chart {
  range: Range;
  zoom: (range: Range | null) => void;
  /** Charts of a group show their values at the same time. */
  group: string;
  choose?: (time: number) => void;
}

/**
 * Values around events: the mean of each interval as a line, lowest to highest as a band. Two lines
 * are aligned at their events.
 */
function SeriesChart({ title, lines, band, range, zoom, group, choose }: Props) {
  const frame = useRef<HTMLDivElement>(null);
  const values = useRef<HTMLSpanElement>(null);
  const plot = useRef<uPlot>(null);
  const latestRange = useRef(range);
  latestRange.current = range;
  const latestChoose = useRef(choose);
  latestChoose.current = choose;
  const identity = JSON.stringify([lines, band]);
  useEffect(() => {
    const element = frame.current;
    if (!element) {
      return;
    }
    const style = getComputedStyle(element);
    const colors = ["--chart-now", "--chart-past"].map((name) => style.getPropertyValue(name).trim());
    const bandColors = ["--chart-now-band", "--chart-past-band"].map((name) => style.getPropertyValue(name).trim());
    const usualColor = style.getPropertyValue("--chart-usual").trim();
    const usualBandColor = style.getPropertyValue("--chart-usual-band").trim();
    const axisColor = style.getPropertyValue("--chart-axis").trim();
    const gridColor = style.getPropertyValue("--chart-grid").trim();

    function showValues(chart: uPlot): void {
      if (values.current) {
        values.current.textContent = describeCursor(chart, lines);
      }
    }

    function zoomToSelection(chart: uPlot): void {
      const { left, width } = chart.select;
      if (width >= MIN_ZOOM) {
        zoom([chart.posToVal(left, "x"), chart.posToVal(left + width, "x")]);
      }
      chart.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    }

    const chart = new uPlot(
      {
        width: element.clientWidth || 300,
        height: HEIGHT,
        legend: { show: false },
        cursor: {
          y: false,
          drag: { x: true, y: false, setScale: false },
          sync: { key: group },
          bind: { dblclick: () => () => (zoom(null), null) },
        },
        padding: [8, 24, 0, 0],
        scales: { x: { time: false, range: () => latestRange.current } },
        axes: [
          {
            stroke: axisColor,
            grid: { stroke: gridColor, width: 1 },
            values: (_, splits) => formatSplits(splits, lines),
            space: 80,
            size: 28,
          },
          { stroke: axisColor, grid: { stroke: gridColor, width: 1 }, size: 46, values: (_, splits) => splits.map(formatValue) },
        ],
        series: [
          {},
          ...lines.flatMap((line, index) => [
            { label: `${line.label} lowest`, stroke: "transparent", points: { show: false }, spanGaps: true },
            { label: `${line.label} highest`, stroke: "transparent", points: { show: false }, spanGaps: true },
            { label: line.label, stroke: colors[index], width: 1.5, spanGaps: true, points: { size: 4, fill: colors[index] } },
          ]),
          ...(band ? listUsualSeries(usualColor) : []),
        ],
        bands: [
          ...lines.map((_, index) => ({
            series: [index * 3 + 2, index * 3 + 1] as [number, number],
            fill: bandColors[index],
          })),
          ...(band ? [{ series: [lines.length * 3 + 2, lines.length * 3 + 1] as [number, number], fill: usualBandColor }] : []),
        ],
        hooks: { draw: [(drawn) => drawEvent(drawn, axisColor)], setCursor: [showValues], setSelect: [zoomToSelection] },
      },
      (band ? [...toColumns(lines[0]), ...toUsualColumns(lines[0].series, band)] : uPlot.join(lines.map(toColumns))) as uPlot.AlignedData,
      element,
    );
    plot.current = chart;
    let pressedAt = 0;
    chart.over.addEventListener("mousedown", (event) => (pressedAt = event.clientX));
    chart.over.addEventListener("click", (event) => {
      const minutes = chart.posToVal(event.offsetX, "x");
      if (Math.abs(event.clientX - pressedAt) < MIN_ZOOM && lines.length === 1) {
        latestChoose.current?.(new Date(lines[0].ts).getTime() + minutes * MINUTE);
      }
    });
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      plot.current = null;
      chart.destroy();
    };
  }, [identity, group]);
  useEffect(() => plot.current?.setScale("x", { min: range[0], max: range[1] }), [range[0], range[1]]);
  return (
    <figure className="chart">
      <figcaption>
        {title}
        {lines.length > 1 &&
          lines.map((line, index) => (
            <span key={line.label} className={index ? "legend-past" : "legend-now"}>
              {line.label}
            </span>
          ))}
        {band && <span className="legend-usual">usual (95 % of {SEASONS[band.season] ?? "earlier rows"})</span>}
        <span ref={values} className="note chart-values" aria-hidden />
      </figcaption>
      <div ref={frame} role="img" aria-label={describeLines(title, lines, range) + describeUsual(band, lines[0].ts)} />
    </figure>
  );
}

function toColumns({ series, ts }: Line): uPlot.AlignedData {
  const start = new Date(ts).getTime();
  const minutes = series.times.map((time) => (new Date(time).getTime() - start) / MINUTE);
  return [minutes, series.lowest, series.highest, series.mean] as uPlot.AlignedData;
}

const SEASONS: Record<string, string> = { hour_of_day: "the same hour", hour_of_week: "the same hour of the week" };

function listUsualSeries(color: string): uPlot.Series[] {
  const edge = { stroke: "transparent", points: { show: false } };
  return [
    { ...edge, label: "usual lowest" },
    { ...edge, label: "usual highest" },
    { label: "usual median", stroke: color, width: 1, dash: [3, 3], points: { show: false } },
  ];
}

/** The quantiles and the median of the hour of each interval; null where there are none. */
function toUsualColumns(series: Series, band: NormBand): (number | null)[][] {
  const starts = band.starts.map((time) => Date.parse(time));
  const ends = band.ends.map((time) => Date.parse(time));
  const hours = series.times.map((time) => {
    const moment = Date.parse(time);
    return starts.findIndex((start, index) => start <= moment && moment < ends[index]);
  });
  return [band.q025, band.q975, band.median].map((values) => hours.map((hour) => values[hour] ?? null));
}

function describeUsual(band: NormBand | undefined, ts: string): string {
  const moment = Date.parse(ts);
  const hour = band?.starts.findIndex((start, index) => Date.parse(start) <= moment && moment < Date.parse(band.ends[index])) ?? -1;
  return band && hour >= 0 ? `. Usual at the alert: ${formatValue(band.q025[hour])} to ${formatValue(band.q975[hour])}` : "";
}

/** Times of the axis: of the clock for one line, with the day if there are several; else from the event. */
function formatSplits(splits: number[], lines: Line[]): string[] {
  if (lines.length > 1) {
    return splits.map(formatOffset);
  }
  const start = new Date(lines[0].ts).getTime();
  const isLong = splits.length > 1 && splits[splits.length - 1] - splits[0] > 1_440;
  return splits.map((minutes) => {
    const time = start + minutes * MINUTE;
    return isLong ? formatTime(time).slice(5, 16) : formatClock(time).slice(0, 5);
  });
}

/** `+20 min`, `-2.5 h`, `+3 d` */
function formatOffset(minutes: number): string {
  const sign = minutes > 0 ? "+" : "";
  const size = Math.abs(minutes);
  const [unit, name] = size >= 2_880 ? [1_440, "d"] : size >= 120 ? [60, "h"] : [1, "min"];
  return `${sign}${formatValue(minutes / unit)} ${name}`;
}

/** `19:22 UTC: 34.1`, or `+3 min: now 97.4, then 95.2`; without a pointer over a chart, nothing. */
function describeCursor(chart: uPlot, lines: Line[]): string {
  const index = chart.cursor.idx;
  if (index === null || index === undefined) {
    return "";
  }
  const isAlone = lines.length === 1;
  const minutes = chart.data[0][index];
  const texts = lines.flatMap(({ label }, line) => {
    const value = chart.data[line * 3 + 3][index];
    return typeof value === "number" ? [`${isAlone ? "" : `${label} `}${formatValue(value)}`] : [];
  });
  const time = isAlone
    ? formatTime(new Date(lines[0].ts).getTime() + minutes * MINUTE).slice(11)
    : formatOffset(Math.round(minutes * 10) / 10);
  return texts.length ? `${time}: ${texts.join(", ")}` : "";
}

function drawEvent(plot: uPlot, color: string): void {
  const x = Math.round(plot.valToPos(0, "x", true));
  const { left, top, width, height } = plot.bbox;
  if (x < left || x > left + width) {
    return;
  }
  plot.ctx.save();
  plot.ctx.strokeStyle = color;
  plot.ctx.setLineDash([4, 4]);
  plot.ctx.beginPath();
  plot.ctx.moveTo(x, top);
  plot.ctx.lineTo(x, top + height);
  plot.ctx.stroke();
  plot.ctx.restore();
}

function describeLines(title: string, lines: Line[], [first, last]: Range): string {
  const start = new Date(lines[0].ts).getTime();
  const shown = `Shown from ${formatTime(start + first * MINUTE)} to ${formatTime(start + last * MINUTE)}`;
  const parts = lines.map(({ label, series, ts }) => {
    if (!series.mean.length) {
      return `${label}: no values`;
    }
    const lowest = formatValue(Math.min(...series.lowest));
    const highest = formatValue(Math.max(...series.highest));
    return `${label}: from ${lowest} to ${highest} around ${formatTime(ts)}`;
  });
  return `${title}. ${[...parts, shown].join(". ")}`;
}
