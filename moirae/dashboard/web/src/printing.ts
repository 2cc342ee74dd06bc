// What is folded or cut on the screen is printed as a whole.

import { useSyncExternalStore } from "react";

let isPrinting = false;

function watchPrinting(notify: () => void): () => void {
  const media = window.matchMedia("print");
  function change(): void {
    isPrinting = media.matches;
    notify();
  }
  function begin(): void {
    isPrinting = true;
    notify();
  }
  function end(): void {
    isPrinting = false;
    notify();
  }
  media.addEventListener("change", change);
  window.addEventListener("beforeprint", begin);
  window.addEventListener("afterprint", end);
  return () => {
    media.removeEventListener("change", change);
    window.removeEventListener("beforeprint", begin);
    window.removeEventListener("afterprint", end);
  };
}

/** Whether the page is being printed. */
export function usePrinting(): boolean {
  return useSyncExternalStore(watchPrinting, () => isPrinting);
}
