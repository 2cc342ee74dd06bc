// What is wrong with the workspace, said where a person looks first.

import { Alert as Message } from "./library";
import { Link } from "react-router";
import type { Status } from "../api";
import { formatCount } from "./common";
import { MarkedText, cutText } from "./text";

const MAX_RULES = 5; // that are named
const MAX_LENGTH = 500; // characters of a problem that are shown at first

/** All problems of the workspace, the most urgent first. */
export function Problems({ status }: { status: Status }) {
  const { problems } = status;
  if (!problems.length) {
    return null;
  }
  return (
    <Message variant="danger" isInline isPlain title={formatCount(problems.length, "problem")} className="problems">
      <ul>
        {problems.map((text) => (
          <li key={text}>
            <MarkedText text={text} length={MAX_LENGTH} />
          </li>
        ))}
      </ul>
    </Message>
  );
}

/** Rules that have no verdict over some rows, those with most of them first. */
export function LostVerdicts({ status }: { status: Status }) {
  const { lost_verdicts: lost } = status;
  if (!lost.length) {
    return null;
  }
  return (
    <Message variant="warning" isInline isPlain title="Rules without a verdict over some rows">
      {lost.slice(0, MAX_RULES).map(({ rule, rows }) => (
        <span key={rule}>
          <Link to={`/rules/${rule}`}>{rule}</Link> ({formatCount(rows, "row")}){" "}
        </span>
      ))}
      {lost.length > MAX_RULES && <Link to="/rules">and others</Link>}
    </Message>
  );
}

/** The beginnings of the most urgent problems: `limit` of at most `length` characters. */
export function ProblemSummary({ status, limit, length }: { status: Status; limit: number; length: number }) {
  const { problems } = status;
  if (!problems.length) {
    return null;
  }
  return (
    <Message variant="danger" isInline title={formatCount(problems.length, "problem")} className="problems">
      <ul>
        {problems.slice(0, limit).map((text) => (
          <li key={text}>
            <MarkedText text={cutText(text, length)} />
          </li>
        ))}
      </ul>
      <Link to="/system">System</Link> shows {problems.length > limit ? "all of them, and" : ""} what to do.
    </Message>
  );
}
