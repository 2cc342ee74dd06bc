// The definition of a rule, as it is stored.

import type { Comparison, RecallOfRule } from "./answers";
import { type Alert, type RuleDetails, get } from "./api";
import { useLoaded } from "./load";

interface Definition {
  where?: string | null;
  context?: object | null;
  recall?: Record<string, RecallOfRule>;
}

const loads = new Map<string, Promise<RuleDetails>>();

/** The definition of an applied rule; null until it is loaded, and for a rule that is gone or built in. */
export function useRule(rule: string, version: string): Definition | null {
  const loaded = useLoaded(
    () => (isBuiltIn(rule) ? Promise.resolve(null) : loadRule(rule, version)),
    [rule, version],
  );
  return loaded.data && findDefinition(loaded.data);
}

/** Whether an alert that has not been compared with past alerts will be. `definition`: of its rule. */
export function findComparison(alert: Alert, definition: Definition | null): Comparison {
  if (alert.past) {
    return "found in history";
  }
  if (isBuiltIn(alert.rule)) {
    return "no recall";
  }
  if (definition === null) {
    return "unknown";
  }
  if (!Object.values(definition.recall ?? {}).some(({ similar }) => similar)) {
    return "no recall";
  }
  return alert.ends_at && !alert.fired_at ? "not fired" : "expected";
}

/** Why an alert has no recall. `definition`: of its rule, null if that is not loaded or gone. */
export function explainNoRecall(alert: Alert, definition: Definition | null): string {
  if (isBuiltIn(alert.rule)) {
    return "An alert about Moirae itself has no recall.";
  }
  if (definition !== null && !Object.keys(definition.recall ?? {}).length) {
    return "The rule of this alert has no recall.";
  }
  if (alert.past) {
    return "No recall: it was found in history, and recalls are for alerts that fire live.";
  }
  if (alert.ends_at && !alert.fired_at) {
    return "No recall: the alert has ended before it fired.";
  }
  if (definition === null) {
    return "No recall.";
  }
  return "No recall yet: it starts once the alert fires and its context is settled.";
}

/** Whether a rule has contexts. `definition`: null if it is not loaded or gone. */
export function hasContexts(definition: Definition | null): boolean {
  return definition === null || Object.keys(definition.context ?? {}).length > 0;
}

/** Whether a rule is one of Moirae itself, such as `moirae/NoInput`: it has no definition, events or recalls. */
export function isBuiltIn(rule: string): boolean {
  return rule.startsWith("moirae/");
}

export function findDefinition(details: RuleDetails): Definition {
  const group = details.definition as { rule?: { rules?: Definition[] } };
  return group.rule?.rules?.[0] ?? {};
}

/** Versions do not change: each is loaded once. */
function loadRule(rule: string, version: string): Promise<RuleDetails> {
  const key = `${rule} ${version}`;
  let load = loads.get(key);
  if (load === undefined) {
    load = get<RuleDetails>(`/rules/${rule}`);
    load.catch(() => loads.delete(key));
    loads.set(key, load);
  }
  return load;
}
