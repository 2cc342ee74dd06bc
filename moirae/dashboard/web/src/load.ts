// Loading data of a page.

import { ApiError } from "./api";
import { useCallback, useEffect, useRef, useState } from "react";
import { useSearchParams } from "react-router";

export interface Loaded<Data> {
  data: Data | null;
  error: string | null;
  /** Whether the server knows no such thing. */
  isMissing: boolean;
  /** Load again; the present data stays until then. */
  reload: () => void;
  /** Change the loaded data. */
  update: (change: (data: Data) => Data) => void;
}

/** Load data when the dependencies change. `interval`: milliseconds after which it is loaded again. */
export function useLoaded<Data>(
  load: (signal: AbortSignal) => Promise<Data>,
  dependencies: readonly unknown[],
  interval = 0,
): Loaded<Data> {
  const [data, setData] = useState<Data | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [isMissing, setMissing] = useState(false);
  const [round, setRound] = useState(0);
  const identity = JSON.stringify(dependencies);
  const shown = useRef(identity);

  useEffect(() => {
    const controller = new AbortController();
    if (shown.current !== identity) {
      shown.current = identity;
      setData(null);
      setError(null);
      setMissing(false);
    }
    load(controller.signal).then(
      (result) => {
        if (!controller.signal.aborted) {
          setData(result);
          setError(null);
          setMissing(false);
        }
      },
      (problem: Error) => {
        if (!controller.signal.aborted) {
          setError(problem.message);
          setMissing(problem instanceof ApiError && problem.status === 404);
        }
      },
    );
    return () => controller.abort();
  }, [identity, round]);

  const reload = useCallback(() => setRound((value) => value + 1), []);
  useEffect(() => {
    if (!interval) {
      return;
    }
    const timer = window.setInterval(reload, interval);
    return () => window.clearInterval(timer);
  }, [interval, reload]);
  const update = useCallback((change: (value: Data) => Data) => {
    setData((value) => (value === null ? value : change(value)));
  }, []);
  return { data, error, isMissing, reload, update };
}

/** The filters of a page, which its address has, and what changes some of them; an empty one is none. */
export function useFilters(): [URLSearchParams, (change: Record<string, string>) => void] {
  const [parameters, setParameters] = useSearchParams();
  function select(change: Record<string, string>): void {
    const next = new URLSearchParams(parameters);
    for (const [name, value] of Object.entries(change)) {
      if (value) {
        next.set(name, value);
      } else {
        next.delete(name);
      }
    }
    setParameters(next);
  }
  return [parameters, select];
}
