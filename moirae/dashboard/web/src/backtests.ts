// Back-tests that run at the server: started, followed and ended by the page.

import { useEffect, useRef, useState } from "react";
import { type ApiError, type BacktestStatus, get, post } from "./api";

const POLL_INTERVAL = 400; // milliseconds
const BUSY_DELAY = 2_000; // milliseconds until a request is repeated that the server was too busy for
const BUSY = 429;

export interface BacktestRequest {
  content: string;
  /** The applied rule that the draft changes; null: a new one. */
  rule: string | null;
  last: string;
  checkOnly: boolean;
}

export interface Backtest {
  status: BacktestStatus | null;
  error: string | null;
  isRunning: boolean;
  /** End it with what was found. */
  cancel: () => void;
}

/** The back-test of a request; that of the request before is ended. `request` null: none. */
export function useBacktest(request: BacktestRequest | null): Backtest {
  const identity = JSON.stringify(request);
  const [status, setStatus] = useState<BacktestStatus | null>(null);
  const [error, setError] = useState<string | null>(null);
  const [shown, setShown] = useState("null");
  const current = useRef<string | null>(null);

  useEffect(() => {
    setShown(identity);
    setStatus(null);
    setError(null);
    if (request === null) {
      return;
    }
    let isLeft = false;
    let id: string | null = null;

    async function follow({ content, rule, last, checkOnly }: BacktestRequest): Promise<void> {
      const body = { files: [{ name: "draft.yaml", content }], rule: rule ?? undefined, last, check_only: checkOnly };
      id = await start(body, () => isLeft);
      current.current = id;
      while (id !== null) {
        if (isLeft) {
          await end(id);
          return;
        }
        const loaded = await get<BacktestStatus>(`/backtests/${id}`);
        if (!isLeft) {
          setStatus(loaded);
        }
        if (loaded.ended_at) {
          return;
        }
        await wait(POLL_INTERVAL);
      }
    }

    follow(request).catch((problem: Error) => !isLeft && setError(problem.message));
    return () => {
      isLeft = true;
      current.current = null;
    };
  }, [identity]);

  function cancel(): void {
    if (current.current) {
      void end(current.current);
    }
  }

  const isCurrent = shown === identity;
  const isRunning = request !== null && error === null && (!isCurrent || !status?.ended_at);
  return { status: isCurrent ? status : null, error: isCurrent ? error : null, isRunning, cancel };
}

/** The ID of a back-test once the server takes it; null if nobody waits for it any more. */
async function start(body: object, isLeft: () => boolean): Promise<string | null> {
  while (!isLeft()) {
    try {
      return (await post<{ id: string }>("/backtests", body)).id;
    } catch (problem) {
      if ((problem as ApiError).status !== BUSY) {
        throw problem;
      }
      await wait(BUSY_DELAY);
    }
  }
  return null;
}

async function end(id: string): Promise<void> {
  await post(`/backtests/${id}/cancel`, {}).catch(() => undefined); // it ends by itself, later
}

function wait(milliseconds: number): Promise<void> {
  return new Promise((resolve) => window.setTimeout(resolve, milliseconds));
}

/** A value that has not changed for some time. */
export function useSettled<Value>(value: Value, milliseconds: number): Value {
  const [settled, setSettled] = useState(value);
  useEffect(() => {
    const timer = window.setTimeout(() => setSettled(value), milliseconds);
    return () => window.clearTimeout(timer);
  }, [value, milliseconds]);
  return settled;
}
