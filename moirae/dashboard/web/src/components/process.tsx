import { Alert as Message } from "./library";
import { type ReactNode } from "react";
import { type Status } from "../api";

export type LiveCondition = Status["live"];

const PROBLEMS: Record<Exclude<LiveCondition, "running">, { title: string; variant: "info" | "warning" | "danger" }> = {
  starting: { title: "The live process is starting: it detects new alerts in a moment", variant: "info" },
  late: { title: "No heartbeat from the live process for 15 s: new alerts may be delayed", variant: "warning" },
  stopped: { title: "The live process does not run: new alerts are not detected", variant: "danger" },
};

interface Props {
  condition: LiveCondition;
  isPlain?: boolean;
  children?: ReactNode;
}

/** Says why new alerts are not detected now; nothing while the live process runs. */
export function LiveProblem({ condition, isPlain = false, children }: Props) {
  if (condition === "running") {
    return null;
  }
  const { title, variant } = PROBLEMS[condition];
  return (
    <Message variant={variant} isInline isPlain={isPlain} title={title}>
      {children}
    </Message>
  );
}
