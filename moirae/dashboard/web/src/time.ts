// All times are shown in UTC with the zone, so that they match logs and the command line.

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** `2026-11-23 08:33:30 UTC` */
export function formatTime(value: string | number): string {
  return `${new Date(value).toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

/** `2026-11-23 08:33 UTC` */
export function formatMinute(value: string | number): string {
  return `${formatDay(value)} ${formatClock(value)}`;
}

/** `08:33 UTC` */
export function formatClock(value: string | number): string {
  return `${new Date(value).toISOString().slice(11, 16)} UTC`;
}

/** `2026-11-23` */
export function formatDay(value: string | number): string {
  return new Date(value).toISOString().slice(0, 10);
}

/** `42 s`, `5 min`, `3 h 10 min`, `4 d 2 h`. `milliseconds`: not negative. */
export function formatDuration(milliseconds: number): string {
  if (milliseconds < SECOND) {
    return "under 1 s";
  }
  if (milliseconds < MINUTE) {
    return `${Math.round(milliseconds / SECOND)} s`;
  }
  if (milliseconds < HOUR) {
    return `${Math.round(milliseconds / MINUTE)} min`;
  }
  if (milliseconds < DAY) {
    return joinUnits(Math.floor(milliseconds / HOUR), "h", Math.floor((milliseconds % HOUR) / MINUTE), "min");
  }
  return joinUnits(Math.floor(milliseconds / DAY), "d", Math.floor((milliseconds % DAY) / HOUR), "h");
}

/** `about 42 s`, `under 1 s` */
export function formatAbout(milliseconds: number): string {
  return milliseconds < SECOND ? formatDuration(milliseconds) : `about ${formatDuration(milliseconds)}`;
}

function joinUnits(large: number, largeUnit: string, small: number, smallUnit: string): string {
  return small ? `${large} ${largeUnit} ${small} ${smallUnit}` : `${large} ${largeUnit}`;
}

/** `3 h 10 min ago`, `in 5 min` */
export function formatAge(value: string | number, now: number): string {
  const age = now - new Date(value).getTime();
  return age >= 0 ? `${formatDuration(age)} ago` : `in ${formatDuration(-age)}`;
}

/** Microseconds of a stored coverage in milliseconds. */
export function fromMicros(micros: number): number {
  return micros / 1_000;
}

/** A number of bytes with a decimal unit: `1.5 MB`. */
export function formatBytes(bytes: number): string {
  const units = ["B", "kB", "MB", "GB", "TB"];
  const exponent = bytes > 0 ? Math.min(units.length - 1, Math.floor(Math.log10(bytes) / 3)) : 0;
  return `${Number((bytes / 1_000 ** exponent).toPrecision(3))} ${units[exponent]}`;
}
