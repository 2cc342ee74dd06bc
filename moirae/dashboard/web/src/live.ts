// The one source of live events. The browser reconnects with Last-Event-ID by itself.
//
// A browser opens at most six connections to a server: pages that nobody sees, in another tab or
// left by the button Back, have none, and load everything again once they are seen.

import { useEffect, useRef, useSyncExternalStore } from "react";
import { encodeQuery, loadSession } from "./api";

export type LiveKind = "alert" | "recall" | "revision" | "boundary" | "status";
export interface LiveEvent {
  kind: LiveKind | "reset";
  data: Record<string, unknown>;
}

const KINDS = ["alert", "recall", "revision", "boundary", "status", "reset"] as const;
const RECONNECT_DELAY = 3_000; // milliseconds
const FLUSH_INTERVAL = 100; // milliseconds in which events are collected

let isConnected = true;
const watchers = new Set<() => void>();

function setConnected(value: boolean): void {
  isConnected = value;
  watchers.forEach((notify) => notify());
}

/** Whether the page gets live events now. */
export function useConnected(): boolean {
  return useSyncExternalStore(
    (notify) => {
      watchers.add(notify);
      return () => watchers.delete(notify);
    },
    () => isConnected,
  );
}

/**
 * Pass live events to a handler, in order and in batches. `reset`: events may have been missed, load
 * the page's data again. `event`: only events about it; null: none yet.
 */
export function useLive(
  filter: { kinds?: LiveKind[]; event?: string | null },
  handler: (events: LiveEvent[]) => void,
): void {
  const latest = useRef(handler);
  latest.current = handler;
  const { event } = filter;
  const kinds = filter.kinds?.join(",") ?? "";
  useEffect(() => {
    if (event === null) {
      return;
    }
    const url = `/api/v1/live${encodeQuery({ kind: kinds ? kinds.split(",") : undefined, event })}`;
    return follow(url, (events) => latest.current(events));
  }, [event, kinds]);
}

function follow(url: string, deliver: (events: LiveEvent[]) => void): () => void {
  let source: EventSource | undefined;
  let reconnectTimer: number | undefined;
  let flushTimer: number | undefined;
  let pending: LiveEvent[] = [];
  let isFirst = true;

  function flush(): void {
    flushTimer = undefined;
    const events = pending;
    pending = [];
    deliver(events);
  }

  function add(liveEvent: LiveEvent): void {
    pending.push(liveEvent);
    flushTimer ??= window.setTimeout(flush, FLUSH_INTERVAL);
  }

  function connect(): void {
    const opened = new EventSource(url);
    // A new source has no Last-Event-ID: what came between two of them is loaded.
    let isReset = !isFirst;
    isFirst = false;
    source = opened;
    opened.onopen = () => {
      setConnected(true);
      if (isReset) {
        isReset = false;
        add({ kind: "reset", data: {} });
      }
    };
    opened.onerror = () => {
      setConnected(false);
      if (opened.readyState === EventSource.CLOSED) {
        // Refused: the session has ended, or too many clients.
        reconnectTimer = window.setTimeout(() => {
          loadSession().catch(() => undefined);
          connect();
        }, RECONNECT_DELAY);
      }
    };
    for (const kind of KINDS) {
      opened.addEventListener(kind, (message) => add({ kind, data: JSON.parse(message.data) }));
    }
  }

  function disconnect(): void {
    window.clearTimeout(reconnectTimer);
    source?.close();
  }

  function followVisibility(): void {
    disconnect();
    if (document.hidden) {
      isFirst = false;
    } else {
      connect();
    }
  }

  followVisibility();
  document.addEventListener("visibilitychange", followVisibility);
  return () => {
    document.removeEventListener("visibilitychange", followVisibility);
    window.clearTimeout(flushTimer);
    disconnect();
    setConnected(true);
  };
}
