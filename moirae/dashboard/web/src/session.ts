// Who uses the dashboard.

import { createContext, useContext } from "react";
import type { Session } from "./api";

export const SessionContext = createContext<Session | null>(null);

/** Whether the user may act on alerts and recalls. */
export function useIsOperator(): boolean {
  const session = useContext(SessionContext);
  return session !== null && session.role !== "viewer";
}

/** Whether the user may apply rules. */
export function useIsAdmin(): boolean {
  return useContext(SessionContext)?.role === "admin";
}
