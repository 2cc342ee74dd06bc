// The layout of a network: nodes in columns, each to the right of what it reads. No I/O.

import type { NetworkLink, NetworkNode } from "./api";

export const NODE_WIDTH = 190; // pixels, as all sizes here
const COLUMN_WIDTH = 490;
const LINE_HEIGHT = 14;
const NODE_HEIGHT = 34;
const NODE_GAP = 18;
const MAX_LABELS = 6; // on arcs into one node: more could not be read
const MAX_COLUMNS = 9;
const MARGIN = 12;

export interface PlacedNode {
  node: NetworkNode;
  x: number;
  y: number;
  height: number;
}

export interface PlacedLink {
  link: NetworkLink;
  path: string;
  /** Where the text of the arc ends; null: it has none. */
  label: { x: number; y: number } | null;
}

export interface Layout {
  width: number;
  height: number;
  nodes: PlacedNode[];
  links: PlacedLink[];
}

export function layOut(nodes: NetworkNode[], links: NetworkLink[]): Layout {
  const incoming = groupLinks(links);
  const columns = findColumns(nodes, links);
  const placed = new Map<string, PlacedNode>();
  let height = 0;
  for (const [index, column] of columns.entries()) {
    let y = MARGIN;
    for (const node of sortBySources(column, incoming, placed)) {
      const lines = Math.min(incoming.get(node.id)?.length ?? 0, MAX_LABELS);
      const nodeHeight = Math.max(NODE_HEIGHT, lines * LINE_HEIGHT + 6);
      placed.set(node.id, { node, x: MARGIN + index * COLUMN_WIDTH, y, height: nodeHeight });
      y += nodeHeight + NODE_GAP;
    }
    height = Math.max(height, y);
  }
  return {
    width: Math.max(1, columns.length - 1) * COLUMN_WIDTH + NODE_WIDTH + 2 * MARGIN,
    height,
    nodes: [...placed.values()],
    links: [...incoming.values()].flatMap((group) => placeLinks(group, placed)),
  };
}

function groupLinks(links: NetworkLink[]): Map<string, NetworkLink[]> {
  const groups = new Map<string, NetworkLink[]>();
  for (const link of links) {
    groups.set(link.target, [...(groups.get(link.target) ?? []), link]);
  }
  return groups;
}

/** By the longest way from a node that reads nothing; groups that read each other are cut somewhere. */
function findColumns(nodes: NetworkNode[], links: NetworkLink[]): NetworkNode[][] {
  const depth = new Map(nodes.map((node) => [node.id, 0]));
  for (let pass = 1; pass < MAX_COLUMNS; pass++) {
    for (const { source, target } of links) {
      const next = Math.min((depth.get(source) ?? 0) + 1, pass);
      depth.set(target, Math.max(depth.get(target) ?? 0, next));
    }
  }
  const columns: NetworkNode[][] = [];
  for (const node of nodes) {
    (columns[depth.get(node.id) ?? 0] ??= []).push(node);
  }
  return columns.filter((column) => column?.length);
}

/** In the order of the places of what they read, so that few arcs cross. */
function sortBySources(column: NetworkNode[], incoming: Map<string, NetworkLink[]>, placed: Map<string, PlacedNode>): NetworkNode[] {
  const center = (node: NetworkNode) => {
    const places = (incoming.get(node.id) ?? []).map(({ source }) => placed.get(source)?.y).filter((y) => y !== undefined);
    return places.length ? places.reduce((sum, y) => sum + y, 0) / places.length : 0;
  };
  const centers = new Map(column.map((node) => [node.id, center(node)]));
  return [...column].sort((a, b) => centers.get(a.id)! - centers.get(b.id)! || a.name.localeCompare(b.name, "en", { numeric: true }));
}

/** The arcs into one node. */
function placeLinks(links: NetworkLink[], placed: Map<string, PlacedNode>): PlacedLink[] {
  return links.map((link, index) => {
    const source = placed.get(link.source)!;
    const target = placed.get(link.target)!;
    const startX = source.x + NODE_WIDTH;
    const startY = source.y + source.height / 2;
    const y = target.y + ((index + 0.5) * target.height) / links.length;
    const bend = Math.max(60, (target.x - startX) / 3);
    const path = `M${startX},${startY} C${startX + bend},${startY} ${target.x - bend},${y} ${target.x},${y}`;
    const label = links.length > MAX_LABELS ? null : { x: target.x - 6, y: y - 3 };
    return { link, path, label };
  });
}
