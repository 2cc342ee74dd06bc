// A text with line numbers, and what is wrong in it.

import { type RefObject, useRef } from "react";
import type { Problem } from "../api";
import { Button, Label } from "./library";
import { MarkedText } from "./text";

interface Props {
  id: string;
  label: string;
  text: string;
  change: (text: string) => void;
  problems?: readonly Problem[];
  minLines?: number;
  /** To set the cursor from outside; see `moveCursor`. */
  field?: RefObject<HTMLTextAreaElement | null>;
}

/** A text field for YAML or SQL. Lines with problems are marked in the margin. */
export function Editor({ id, label, text, change, problems = [], minLines = 8, field }: Props) {
  const margin = useRef<HTMLPreElement>(null);
  const worst = new Map<number, string>();
  for (const { line, severity } of problems) {
    if (line && worst.get(line) !== "error") {
      worst.set(line, severity);
    }
  }
  const count = text.split("\n").length;
  return (
    <div className="editor">
      <pre className="editor-margin" aria-hidden ref={margin}>
        {Array.from({ length: count }, (_, index) => (
          <span key={index} className={worst.has(index + 1) ? `mark-${worst.get(index + 1)}` : undefined}>
            {index + 1}
            {"\n"}
          </span>
        ))}
      </pre>
      <textarea
        id={id}
        ref={field}
        aria-label={label}
        value={text}
        rows={Math.max(minLines, Math.min(count + 1, 32))}
        spellCheck={false}
        autoCapitalize="off"
        autoCorrect="off"
        wrap="off"
        aria-invalid={problems.some(({ severity }) => severity === "error")}
        onChange={(event) => change(event.target.value)}
        onScroll={(event) => {
          if (margin.current) {
            margin.current.scrollTop = event.currentTarget.scrollTop;
          }
        }}
      />
    </div>
  );
}

const COLORS = { error: "red", warning: "orange", note: "blue" } as const;

/** Problems, the worst first; those with a place lead to it. */
export function ProblemList({ problems, field }: { problems: readonly Problem[]; field: RefObject<HTMLTextAreaElement | null> }) {
  const order = ["error", "warning", "note"];
  const sorted = [...problems].sort((one, other) => order.indexOf(one.severity) - order.indexOf(other.severity));
  return (
    <ul className="problem-list">
      {sorted.map(({ line, column, message, severity }, index) => (
        <li key={index}>
          <Label isCompact color={COLORS[severity as keyof typeof COLORS] ?? "grey"}>
            {severity}
          </Label>{" "}
          {line ? (
            <Button variant="link" isInline onClick={() => moveCursor(field.current, line, column ?? 1)}>
              {line}:{column ?? 1}
            </Button>
          ) : null}{" "}
          <MarkedText text={message} />
        </li>
      ))}
    </ul>
  );
}

/** Set the cursor to a line and column, both from 1. */
function moveCursor(field: HTMLTextAreaElement | null, line: number, column: number): void {
  if (!field) {
    return;
  }
  const lines = field.value.split("\n");
  const start = lines.slice(0, line - 1).reduce((length, text) => length + text.length + 1, 0);
  const position = Math.min(start + column - 1, field.value.length);
  field.focus();
  field.setSelectionRange(position, position);
  field.scrollTop = (line - 4) * (field.scrollHeight / lines.length);
}
