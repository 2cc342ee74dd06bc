// Keys of the pages. They can be turned off, as speech input and some assistive programs send them.

import { useEffect, useRef } from "react";

export type KeyBindings = Record<string, () => void>;

const SETTING = "moirae.keys";
const SEQUENCE_TIMEOUT = 1_200; // milliseconds between `g` and the next key

export function areKeysEnabled(): boolean {
  return localStorage.getItem(SETTING) !== "off";
}

export function enableKeys(enabled: boolean): void {
  localStorage.setItem(SETTING, enabled ? "on" : "off");
}

/** Call functions on keys, such as `a`, or `g n` for two keys in succession. */
export function useKeys(bindings: KeyBindings): void {
  const latest = useRef(bindings);
  latest.current = bindings;
  useEffect(() => {
    let prefix = "";
    let prefixAt = 0;
    function handle(event: KeyboardEvent): void {
      if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || !areKeysEnabled()) {
        return;
      }
      if (event.key === "g") {
        prefix = "g ";
        prefixAt = event.timeStamp;
        return;
      }
      const isSequence = prefix !== "" && event.timeStamp - prefixAt < SEQUENCE_TIMEOUT;
      const action = latest.current[(isSequence ? prefix : "") + event.key];
      prefix = "";
      if (action) {
        event.preventDefault();
        action();
      }
    }
    window.addEventListener("keydown", handle);
    return () => window.removeEventListener("keydown", handle);
  }, []);
}

/** Move the focus among the links of a list: +1 the next, -1 the previous. */
export function moveFocus(selector: string, step: number): void {
  const items = [...document.querySelectorAll<HTMLElement>(selector)];
  const current = items.indexOf(document.activeElement as HTMLElement);
  const next = items[Math.min(items.length - 1, Math.max(0, current + step))];
  next?.focus();
}

function isTyping(target: EventTarget | null): boolean {
  const element = target as HTMLElement | null;
  return !!element?.closest?.("input, textarea, select, [contenteditable], [role=dialog]");
}
