// Texts and sections that are shown in part, and as a whole on request.

import { Button, ExpandableSection } from "./library";
import { type ReactNode, useState } from "react";
import { usePrinting } from "../printing";

const SHOWN_LENGTH = 300; // characters of a text that are shown at first
const MAX_LENGTH = 100_000; // characters that are shown at most: more would slow the browser down

/** The beginning of a text; it ends between two characters, not within one. */
export function cutText(text: string, length = SHOWN_LENGTH): string {
  if (text.length <= length) {
    return text;
  }
  const isSurrogate = /[\ud800-\udbff]/.test(text[length - 1]);
  return `${text.slice(0, isSurrogate ? length - 1 : length).trimEnd()} …`;
}

/** A message of Moirae, in which commands stand between backticks; a long one is cut as by `LongText`. */
export function MarkedText({ text, length = SHOWN_LENGTH }: { text: string; length?: number }) {
  const parts = text.split("`");
  const isUnclosed = parts.length % 2 === 0;
  if (text.length > length || isUnclosed) {
    return <LongText text={text} length={length} />;
  }
  return <>{parts.map((part, index) => (index % 2 ? <code key={index}>{part}</code> : part))}</>;
}

/** A text of any length: a long one is cut, and shown as a whole on request. */
export function LongText({ text, length = SHOWN_LENGTH }: { text: string; length?: number }) {
  const [isWhole, setWhole] = useState(false);
  if (text.length <= length) {
    return <>{text}</>;
  }
  const size = text.length > MAX_LENGTH ? `the first ${MAX_LENGTH.toLocaleString("en")} of ${text.length.toLocaleString("en")}` : `all ${text.length.toLocaleString("en")}`;
  return (
    <>
      {cutText(text, isWhole ? MAX_LENGTH : length)}{" "}
      <Button variant="link" isInline onClick={() => setWhole(!isWhole)}>
        {isWhole ? "Show less" : `Show ${size} characters`}
      </Button>
    </>
  );
}

/** A section that is closed at first; on paper it is open. */
export function FoldedSection({ title, children }: { title: string; children: () => ReactNode }) {
  const [isOpened, setOpened] = useState(false);
  const isExpanded = usePrinting() || isOpened;
  return (
    <ExpandableSection toggleText={title} isExpanded={isExpanded} onToggle={(_, expanded) => setOpened(expanded)}>
      {isExpanded && children()}
    </ExpandableSection>
  );
}
