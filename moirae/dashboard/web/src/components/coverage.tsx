import { Progress } from "./library";
import type { Answer } from "../api";
import { coverageOf, coveredShare, describeCoverage, isOpen } from "../answers";
import { formatAbout } from "../time";
import { StateLabel, Time } from "./common";
import { LongText } from "./text";

/** How much of history a recall has read, and how long the rest takes. */
export function CoverageBar({ answer }: { answer: Answer }) {
  const coverage = coverageOf(answer);
  const share = coverage ? coveredShare(coverage) : 0;
  const isDone = !isOpen(answer);
  const remaining = answer.remaining_seconds;
  const isDeferred = answer.state === "waiting" && coverage !== null;
  return (
    <div className="coverage">
      <Progress
        value={Math.round(share * 100)}
        title={
          <>
            {answer.recall} <StateLabel state={isDeferred ? "deferred" : answer.state} />
          </>
        }
        size="sm"
        variant={answer.state === "failed" ? "danger" : isDone && share === 1 ? "success" : undefined}
        aria-label={`History read by ${answer.recall}`}
      />
      <p className="note">
        {coverage ? describeCoverage(coverage) : "Nothing read yet"}
        {isOpen(answer) && typeof remaining === "number" && `, ${formatAbout(remaining * 1_000)} left`}
        {isDone && coverage?.partial && ", partial"}
        {isDone && coverage && !coverage.partial && ", complete"}
      </p>
      {answer.error && (
        <p className="note error">
          {isOpen(answer) && (
            <>
              The last query failed and is tried again
              {answer.retry_at && (
                <>
                  {" "}
                  <Time value={answer.retry_at} brief />
                </>
              )}
              :{" "}
            </>
          )}
          <LongText text={answer.error} />
        </p>
      )}
    </div>
  );
}
