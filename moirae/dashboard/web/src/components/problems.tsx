// What is wrong with the workspace, said where a person looks first.

import { Alert as Message } from "./library";
import type { Status } from "../api";
import { LongText } from "./text";

/** The problems of the workspace, the most urgent first. `limit`: how many are shown; all by default. */
export function Problems({ status, limit }: { status: Status; limit?: number }) {
  const { problems } = status;
  const shown = problems.slice(0, limit);
  return (
    <>
      {shown.map((text) => (
        <Message key={text} variant="danger" isInline isPlain={limit === undefined} title={<LongText text={text} length={500} />} />
      ))}
      {shown.length < problems.length && <p className="note">{problems.length - shown.length} more problems are on the page System.</p>}
    </>
  );
}
