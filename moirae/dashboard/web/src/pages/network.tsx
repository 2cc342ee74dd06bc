import { Button, Card, CardBody, CardTitle, PageSection, Title } from "../components/library";
import { type KeyboardEvent, useMemo, useState } from "react";
import { Link, useSearchParams } from "react-router";
import { type NetworkGraph, type NetworkLink, type NetworkNode, type NetworkRows, get } from "../api";
import { Pending, formatCount, formatShort, useTitle } from "../components/common";
import { DataTable, RowsTable } from "../components/rows";
import { useLoaded } from "../load";
import { NODE_WIDTH, type PlacedLink, type PlacedNode, layOut } from "../network-layout";
import { formatBytes, formatDuration } from "../time";

const INTERVAL = 10_000; // milliseconds
const MAX_LISTED = 100; // arcs in the table
const MAX_NAME = 26; // characters that fit a node
const WITH_ROWS = ["stream", "rule", "context", "recall", "stage"];

/** What reads what, with what flows over each arc. */
export function NetworkPage() {
  useTitle("Network");
  const [parameters, setParameters] = useSearchParams();
  const open = parameters.getAll("open");
  const isChosen = parameters.has("chosen");
  const [selected, setSelected] = useState<string | null>(null);
  const query = isChosen ? (open.length ? { expand: open } : { collapse: true }) : {};
  const loaded = useLoaded((signal) => get<NetworkGraph>("/network", query, signal), [parameters.toString()], INTERVAL);
  const graph = loaded.data;

  function choose(groups: readonly string[]): void {
    setSelected(null);
    setParameters([["chosen", ""], ...groups.map((group) => ["open", group] as [string, string])]);
  }

  if (graph === null) {
    return (
      <PageSection>
        <Title headingLevel="h1">Network</Title>
        <Pending error={loaded.error} lines={6} />
      </PageSection>
    );
  }
  const selectedLink = graph.links.find((link) => nameLink(link) === selected);
  return (
    <PageSection>
      <Title headingLevel="h1">Network</Title>
      <p className="note">
        What reads what, from streams on the left to recalls and stages. On the arcs: rows in a second, × rows that come of each, cores,
        memory, lag; means of the last {formatDuration(graph.measured_seconds * 1_000)}. Open a group, or choose an arc for its last rows.
      </p>
      <div className="actions">
        {graph.expanded.map((group) => (
          <Button key={group} variant="secondary" size="sm" onClick={() => choose(graph.expanded.filter((name) => name !== group))}>
            Close {group}
          </Button>
        ))}
      </div>
      <Picture graph={graph} selected={selected} select={setSelected} openGroup={(group) => choose([...graph.expanded, group])} />
      {selectedLink && <Selected link={selectedLink} graph={graph} />}
      <LinkTable graph={graph} select={setSelected} openGroup={(group) => choose([...graph.expanded, group])} />
    </PageSection>
  );
}

interface PictureProps {
  graph: NetworkGraph;
  selected: string | null;
  select: (link: string) => void;
  openGroup: (group: string) => void;
}

function Picture({ graph, selected, select, openGroup }: PictureProps) {
  const layout = useMemo(() => layOut(graph.nodes, graph.links), [graph]);
  return (
    <div className="network" role="region" aria-label="Picture of the network" tabIndex={0}>
      <svg width={layout.width} height={layout.height} role="group" aria-label="Network">
        {layout.links.map((placed) => (
          <Arc key={nameLink(placed.link)} placed={placed} isSelected={selected === nameLink(placed.link)} select={select} />
        ))}
        {layout.nodes.map((placed) => (
          <Box key={placed.node.id} placed={placed} openGroup={openGroup} />
        ))}
      </svg>
    </div>
  );
}

function Arc({ placed, isSelected, select }: { placed: PlacedLink; isSelected: boolean; select: (link: string) => void }) {
  const { link, path, label } = placed;
  const name = nameLink(link);
  const text = describeFlow(link);
  return (
    <g
      className={isSelected ? "arc selected" : "arc"}
      role="button"
      tabIndex={0}
      aria-label={`${name}: ${text || "not counted"}`}
      onClick={() => select(name)}
      onKeyDown={(event) => onPress(event, () => select(name))}
    >
      <path className="arc-target" d={path} />
      <path className="arc-line" d={path} strokeWidth={1 + Math.log10(1 + (link.rows_per_second ?? 0))} />
      {label && (
        <text x={label.x} y={label.y} textAnchor="end">
          {text}
        </text>
      )}
    </g>
  );
}

function Box({ placed, openGroup }: { placed: PlacedNode; openGroup: (group: string) => void }) {
  const { node, x, y, height } = placed;
  const shown = node.name.length > MAX_NAME ? `…${node.name.slice(1 - MAX_NAME)}` : node.name;
  const isGroup = node.kind === "group";
  const behavior = isGroup
    ? {
        role: "button",
        tabIndex: 0,
        "aria-label": `Open group ${node.name}: ${describeParts(node)}`,
        onClick: () => openGroup(node.group),
        onKeyDown: (event: KeyboardEvent) => onPress(event, () => openGroup(node.group)),
      }
    : {};
  return (
    <g className={`box ${node.kind}`} transform={`translate(${x},${y})`} {...behavior}>
      <title>{isGroup ? `${node.name}: ${describeParts(node)}` : `${node.kind} ${node.name}`}</title>
      <rect width={NODE_WIDTH} height={height} rx={node.kind === "stream" || node.kind === "relation" ? 0 : 8} />
      <text x={8} y={15} className="kind">
        {isGroup ? describeParts(node).slice(0, 34) : node.kind}
      </text>
      <text x={8} y={29}>{shown}</text>
    </g>
  );
}

/** The figures of an arc and the last rows of its source. */
function Selected({ link, graph }: { link: NetworkLink; graph: NetworkGraph }) {
  const source = graph.nodes.find((node) => node.id === link.source)!;
  return (
    <Card isCompact>
      <CardTitle component="h2">{nameLink(link)}</CardTitle>
      <CardBody>
        <p aria-live="polite">{describeFlow(link) || "Nothing is counted here."}</p>
        {source.kind === "rule" && (
          <p>
            <Link to={`/rules/${source.name}`}>The rule {source.name}</Link>
          </p>
        )}
        {WITH_ROWS.includes(source.kind) ? (
          <LastRows key={source.id} node={source} />
        ) : (
          <p className="note">{explainNoRows(source)}</p>
        )}
      </CardBody>
    </Card>
  );
}

function LastRows({ node }: { node: NetworkNode }) {
  const loaded = useLoaded((signal) => get<NetworkRows>(`/network/rows/${encodeURI(node.id)}`, {}, signal), [node.id]);
  if (loaded.isMissing || loaded.data?.rows.length === 0) {
    return <p className="note">No rows yet.</p>;
  }
  return loaded.data === null ? <Pending error={loaded.error} /> : <RowsTable rows={loaded.data.rows} label={`Last rows of ${node.name}`} />;
}

function explainNoRows(node: NetworkNode): string {
  if (node.kind === "group") {
    return "Open the group to see the rows of its rules.";
  }
  return node.kind === "alerts" ? "Alerts are on the page History." : "Its rows are not stored as they flow: ask for them on the page Query.";
}

/** The arcs in words: for screen readers and narrow screens. */
function LinkTable({ graph, select, openGroup }: Omit<PictureProps, "selected">) {
  const listed = graph.links.slice(0, MAX_LISTED);
  const nodes = new Map(graph.nodes.map((node) => [node.id, node]));
  const showNode = (id: string) => {
    const node = nodes.get(id)!;
    if (node.kind !== "group") {
      return `${node.kind} ${node.name}`;
    }
    return (
      <Button key={id} variant="link" isInline onClick={() => openGroup(node.group)}>
        group {node.name}
      </Button>
    );
  };
  return (
    <>
      <DataTable
        label="Arcs"
        columns={["From", "To", "Rows/s", "Selectivity", "Cores", "Memory", "Lag", "Rows"]}
        rows={listed.map((link) => [
          showNode(link.source),
          showNode(link.target),
          show(link.rows_per_second, formatShort),
          show(link.selectivity, formatShort),
          show(link.cost, formatShort),
          show(link.memory_bytes, formatBytes),
          show(link.lag_seconds, (seconds) => formatDuration(seconds * 1_000)),
          <Button key="rows" variant="link" isInline aria-label={`Last rows of ${nameLink(link)}`} onClick={() => select(nameLink(link))}>
            last rows
          </Button>,
        ])}
      />
      {graph.links.length > MAX_LISTED && (
        <p className="note">{formatCount(graph.links.length - MAX_LISTED, "further arc")}: close groups to see fewer.</p>
      )}
    </>
  );
}

function nameLink({ source, target }: NetworkLink): string {
  return `${source.replace(":", " ")} → ${target.replace(":", " ")}`;
}

function describeFlow(link: NetworkLink): string {
  const parts: string[] = [];
  if (link.rows_per_second !== null) {
    parts.push(`${formatShort(link.rows_per_second)}/s`);
  }
  if (link.selectivity !== null) {
    parts.push(`×${formatShort(link.selectivity)}`);
  }
  if (link.cost) {
    parts.push(`${formatShort(link.cost)} cores`);
  }
  if (link.memory_bytes) {
    parts.push(formatBytes(link.memory_bytes));
  }
  if (link.lag_seconds) {
    parts.push(`${formatDuration(link.lag_seconds * 1_000)} behind`);
  }
  return parts.join(" ");
}

function describeParts(node: NetworkNode): string {
  return Object.entries(node.parts)
    .map(([kind, count]) => (kind === "derived" ? `${count} derived` : formatCount(count, kind)))
    .join(", ");
}

function show<Value>(value: Value | null, format: (value: Value) => string): string {
  return value === null ? "–" : format(value);
}

function onPress(event: KeyboardEvent, action: () => void): void {
  if (event.key === "Enter" || event.key === " ") {
    event.preventDefault();
    action();
  }
}
