import "uplot/dist/uPlot.min.css";
import { useEffect, useRef } from "react";
import uPlot from "uplot";
import type { Series } from "../api";
import { formatValue } from "./common";
import { formatClock, formatTime } from "../time";

const HEIGHT = 130; // pixels
const MINUTE = 60_000; // milliseconds

interface Line {
  label: string;
  series: Series;
  /** The time of the event, the zero of the axis. */
  ts: string;
}

/**
 * Values around events: the mean of each interval as a line, lowest to highest as a band. Two lines
 * are aligned at their events.
 */
export function SeriesChart({ title, lines }: { title: string; lines: Line[] }) {
  const frame = useRef<HTMLDivElement>(null);
  useEffect(() => {
    const element = frame.current;
    if (!element) {
      return;
    }
    const style = getComputedStyle(element);
    const colors = ["--chart-now", "--chart-past"].map((name) => style.getPropertyValue(name).trim());
    const bandColors = ["--chart-now-band", "--chart-past-band"].map((name) => style.getPropertyValue(name).trim());
    const axisColor = style.getPropertyValue("--chart-axis").trim();
    const gridColor = style.getPropertyValue("--chart-grid").trim();
    const [first] = lines;
    const isAlone = lines.length === 1;
    const start = new Date(first.ts).getTime();
    const range = rangeOf(lines);

    function formatX(minutes: number): string {
      return isAlone ? formatClock(start + minutes * MINUTE).slice(0, 5) : `${minutes > 0 ? "+" : ""}${minutes} min`;
    }

    const chart = new uPlot(
      {
        width: element.clientWidth || 300,
        height: HEIGHT,
        legend: { show: false },
        cursor: { y: false, drag: { x: false, y: false } },
        padding: [8, 24, 0, 0],
        scales: { x: { time: false, range: () => range } },
        axes: [
          {
            stroke: axisColor,
            grid: { stroke: gridColor, width: 1 },
            values: (_, splits) => splits.map(formatX),
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
        ],
        bands: lines.map((_, index) => ({
          series: [index * 3 + 2, index * 3 + 1] as [number, number],
          fill: bandColors[index],
        })),
        hooks: { draw: [(plot) => drawEvent(plot, axisColor)] },
      },
      uPlot.join(lines.map(toColumns)) as uPlot.AlignedData,
      element,
    );
    const observer = new ResizeObserver(() => chart.setSize({ width: element.clientWidth, height: HEIGHT }));
    observer.observe(element);
    return () => {
      observer.disconnect();
      chart.destroy();
    };
  }, [lines]);
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
      </figcaption>
      <div ref={frame} role="img" aria-label={describeLines(title, lines)} />
    </figure>
  );
}

/** Minutes from the first to the last value, and the event. */
function rangeOf(lines: Line[]): [number, number] {
  const minutes = lines.flatMap((line) => [0, ...toColumns(line)[0]]);
  const lowest = Math.min(...minutes);
  const highest = Math.max(...minutes);
  return highest > lowest ? [lowest, highest] : [lowest - 1, highest + 1];
}

function toColumns({ series, ts }: Line): uPlot.AlignedData {
  const start = new Date(ts).getTime();
  const minutes = series.times.map((time) => (new Date(time).getTime() - start) / MINUTE);
  return [minutes, series.lowest, series.highest, series.mean] as uPlot.AlignedData;
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

function describeLines(title: string, lines: Line[]): string {
  const parts = lines.map(({ label, series, ts }) => {
    if (!series.mean.length) {
      return `${label}: no values`;
    }
    const lowest = formatValue(Math.min(...series.lowest));
    const highest = formatValue(Math.max(...series.highest));
    return `${label}: from ${lowest} to ${highest} around ${formatTime(ts)}`;
  });
  return `${title}. ${parts.join(". ")}`;
}
