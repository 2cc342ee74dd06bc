// What answers say. No I/O.

import type { Answer, Coverage, Hit, Revision, Row, Series } from "./api";
import { fromMicros, formatDay, formatDuration } from "./time";

const USUAL = 2; // standard deviations from the mean up to which a value is normal
const UNUSUAL = 3; // and up to which it is unusual; beyond, it is not normal
// What part of history a judgement needs. Chunks are read from the newest on: the first one holds the
// rows of the incident itself, and its rows are much alike. A standard deviation of 30 samples is
// wrong by about 13 %, of fewer by more.
const MIN_CHUNKS = 2;
const MIN_SHARE = 0.1; // of the chunks
const MIN_SAMPLES = 30;
const MAX_TAGS = 3; // of similar alerts that are listed
const RETURN_PERIOD = 7 * 86_400_000; // milliseconds after an alert in which its return is counted
const OPEN_STATES = ["waiting", "running", "suspended"];

export function coverageOf(answer: Answer): Coverage | null {
  return answer.coverage as unknown as Coverage | null;
}

export function isOpen(answer: Answer): boolean {
  return OPEN_STATES.includes(answer.state);
}

/** The answers of recalls, without the rows of stages. */
export function listRecalls(answers: readonly Answer[]): Answer[] {
  return answers.filter((answer) => answer.kind !== "stage");
}

/** The rows of the stages (`then`) of an event. */
export function listStages(answers: readonly Answer[]): Answer[] {
  return answers.filter((answer) => answer.kind === "stage");
}

export function findNorm(answers: readonly Answer[]): Answer | undefined {
  return answers.find((answer) => answer.kind === "sql");
}

export function findSimilar(answers: readonly Answer[]): Answer | undefined {
  return answers.find((answer) => answer.kind === "similar");
}

/** Answers with a newer revision. An older one changes nothing. */
export function withRevision(answers: readonly Answer[], revision: Revision): Answer[] {
  if (revision.kind === "stage") {
    return withStage(answers, revision);
  }
  return answers.map((answer) => {
    if (answer.id !== revision.recall || revision.number <= answer.number) {
      return answer;
    }
    return {
      ...answer,
      state: answer.state === "waiting" ? "running" : answer.state,
      number: revision.number,
      coverage: revision.coverage,
      rows: revision.rows ?? answer.rows,
      hits: revision.hits ?? answer.hits,
      estimates: revision.estimates,
      comparable: revision.comparable,
      match: revision.match,
      forecast: revision.forecast ?? answer.forecast,
    };
  });
}

/** Answers with the present rows of a stage, which may be new. */
function withStage(answers: readonly Answer[], revision: Revision): Answer[] {
  const isOfStage = (answer: Answer) => answer.kind === "stage" && answer.recall === revision.name;
  const before = answers.find(isOfStage);
  if (before && before.number > revision.number) {
    return [...answers];
  }
  const stage: Answer = {
    recall: revision.name,
    kind: "stage",
    state: revision.error ? "failed" : revision.final ? "done" : "running",
    number: revision.number,
    coverage: null,
    rows: revision.rows ?? before?.rows ?? null,
    hits: null,
    error: revision.error,
    estimates: null,
    forecast: null,
    comparable: null,
    match: null,
    id: null,
    remaining_seconds: null,
    retry_at: null,
  };
  return [...answers.filter((answer) => !isOfStage(answer)), stage];
}

/** What an alert probably is: resolutions with their probabilities, and that of none of these. */
export interface Forecast {
  tags: [string, number][];
  newTag: number;
  /** Of 95 %, of the tags and of none of these; none in answers of earlier versions. */
  intervals: [number, number][];
  /** Why plain frequencies are shown; null: probabilities are learned. */
  reason: string | null;
}

interface StoredForecast {
  tags?: [string, number][];
  new_tag?: number;
  intervals?: [number, number][];
  new_tag_interval?: [number, number];
  reason?: string;
}

/** The forecast of a similarity recall by the measure `learned`; null if it has none. */
export function readForecast(answer: Answer | undefined): Forecast | null {
  const stored = answer?.forecast as StoredForecast | null | undefined;
  if (!stored?.tags?.length) {
    return null;
  }
  const intervals = stored.new_tag_interval ? [...(stored.intervals ?? []), stored.new_tag_interval] : [];
  return { tags: stored.tags, newTag: stored.new_tag ?? 0, intervals, reason: stored.reason ?? null };
}

/** From how many episodes a model learned that says nothing yet; null if it says something. */
export function countTooFewEpisodes(answer: Answer | undefined): number | null {
  const stored = answer?.forecast as { withheld?: boolean; episodes?: number } | null | undefined;
  return stored?.withheld ? (stored.episodes ?? 0) : null;
}

/** `restart 75 %`: the most probable resolution; null if it is probably none of the known ones. */
export function describeForecast(forecast: Forecast): string | null {
  const [tag, probability] = forecast.tags[0];
  return probability > forecast.newTag ? `${tag} ${formatPercent(probability)}` : null;
}

/** `55–84 %`: the interval of the probability at a position; empty without one. */
export function describeInterval(forecast: Forecast, index: number): string {
  const interval = forecast.intervals.at(index);
  return interval ? formatInterval(interval) : "";
}

function formatInterval([low, high]: readonly [number, number]): string {
  return `${Math.round(low * 100)}–${formatPercent(high)}`;
}

export function formatPercent(share: number): string {
  return `${Math.round(share * 100)} %`;
}

/** The share of history that was read, from 0 to 1. */
export function coveredShare(coverage: Coverage): number {
  const all = coverage.read + coverage.left + coverage.failed + (coverage.by_summary ?? 0);
  return all ? (all - coverage.left) / all : 1;
}

/** Whether there may be something in history that no answer says anything about. */
export function isPartOfHistory(coverage: Coverage): boolean {
  return !coverage.final || coverage.partial || coverage.left > 0;
}

/** Whether all that exists was read, but a part of the requested range has expired. */
export function isCutByRetention(coverage: Coverage): boolean {
  return coverage.partial && !coverage.left && !coverage.failed && typeof coverage.asked_from === "number";
}

/** `12 of 16 chunks read, back to 2026-11-15` */
export function describeCoverage(coverage: Coverage): string {
  const skipped = coverage.by_summary ?? 0;
  const all = coverage.read + coverage.left + coverage.failed + skipped;
  const parts = [`${coverage.read + skipped} of ${all} chunks read`];
  if (coverage.read) {
    parts.push(coverage.read_from === null ? "back to the beginning" : `back to ${formatDay(fromMicros(coverage.read_from))}`);
  }
  if (coverage.asked_to !== undefined) {
    parts.push(`up to ${formatDay(fromMicros(coverage.asked_to))}`);
  }
  if (coverage.ranges !== undefined) {
    parts.push(`${coverage.ranges} ranges of time`);
  }
  for (const [column, [low, high]] of Object.entries(coverage.unread ?? {})) {
    parts.push(`unread values of ${column} lie between ${low} and ${high}`);
  }
  if (isCutByRetention(coverage)) {
    parts.push(`asked from ${formatDay(fromMicros(coverage.asked_from as number))}: older rows have expired`);
  }
  if (skipped) {
    parts.push(`${skipped} of them by their summary`);
  }
  if (coverage.failed) {
    parts.push(`${coverage.failed} failed`);
  }
  for (const [stream, until] of Object.entries(coverage.ended ?? {})) {
    parts.push(`rows of ${stream} before ${formatDay(fromMicros(until))} have expired`);
  }
  if (coverage.left && coverage.hopeful !== undefined && coverage.hopeful !== null) {
    parts.push(
      coverage.hopeful ? `${coverage.hopeful} unread ones can change the answer` : "no unread one can change the answer",
    );
  }
  return parts.join(", ");
}

/** A recall as the rule has it. */
export interface RecallOfRule {
  sql?: string | null;
  similar?: object | null;
  normal?: { of: string } | null;
}

export interface Norm {
  /** The attribute of the event that the norm is about. */
  attribute: string | null;
  value: number | null;
  mean: number;
  deviation: number | null;
  /** The extremes of all samples. */
  lowest: number | null;
  highest: number | null;
  samples: number | null;
  /** Of a recall `normal`: its verdict as a sentence, and the values that are usual. */
  says: string | null;
  usual: [number, number] | null;
}

/**
 * The usual statistics of a norm's first row; null if it has none. `attributes`: of the event. `recall`:
 * as the rule has it; the norm is about the numeric attribute that it names.
 */
export function readNorm(row: Row | undefined, attributes: Row, recall: RecallOfRule | undefined): Norm | null {
  const isNormal = recall?.normal != null;
  const sql = recall?.normal?.of ?? recall?.sql;
  const mean = numberOf(row, isNormal ? ["median"] : ["mean", "avg", "average", "median"]);
  if (mean === null) {
    return null;
  }
  const names = new Set(isNormal ? [sql] : sql?.match(/\w+/g));
  const low = numberOf(row, ["low"]);
  const high = numberOf(row, ["high"]);
  const values = Object.entries(attributes).filter(([name, value]) => typeof value === "number" && names.has(name));
  // Several: it is not known which one the norm is about.
  const [attribute, value] = values.length === 1 ? values[0] : [null, null];
  return {
    attribute,
    value: value as number | null,
    mean,
    deviation: isNormal ? null : numberOf(row, ["sd", "stddev", "std"]),
    lowest: numberOf(row, ["lowest", "min", "minimum"]),
    highest: numberOf(row, ["highest", "max", "maximum"]),
    samples: numberOf(row, ["samples", "count", "n"]),
    says: isNormal && typeof row?.says === "string" ? row.says : null,
    usual: isNormal && low !== null && high !== null ? [low, high] : null,
  };
}

/**
 * `Not normal: 9.2 standard deviations above the mean`; while history is being read, `So far: not
 * normal, 9.2 …`.
 */
export function describeDistance(norm: Norm, coverage: Coverage | null): string | null {
  if (norm.says !== null) {
    return coverage && !coverage.final ? `So far: ${norm.says}` : norm.says.charAt(0).toUpperCase() + norm.says.slice(1);
  }
  if (norm.value === null || !norm.deviation) {
    return null;
  }
  if (!isEnoughToJudge(norm, coverage)) {
    return "Too little history has been read to judge";
  }
  const distance = (norm.value - norm.mean) / norm.deviation;
  const size = Math.abs(distance);
  const judgement = size > UNUSUAL ? "Not normal" : size > USUAL ? "Unusual" : "Normal";
  const text = `${size.toFixed(1)} standard deviations ${distance >= 0 ? "above" : "below"} the mean`;
  return coverage && !coverage.final ? `So far: ${judgement.toLowerCase()}, ${text}` : `${judgement}: ${text}`;
}

/** Whether a norm of a part of history says what is normal. The whole history always does: there is no more. */
export function isEnoughToJudge(norm: Norm, coverage: Coverage | null): boolean {
  if (coverage === null || (coverage.final && !coverage.left)) {
    return true;
  }
  const chunks = coverage.read + (coverage.by_summary ?? 0);
  const hasChunks = chunks >= MIN_CHUNKS && chunks / (chunks + coverage.left + coverage.failed) >= MIN_SHARE;
  return hasChunks && (norm.samples === null || norm.samples >= MIN_SAMPLES);
}

/** The usual range: of a recall `normal`, else two standard deviations from the mean, but nothing that was never seen. */
export function usualRange(norm: Norm): [number, number] | null {
  if (norm.usual !== null) {
    return norm.usual;
  }
  if (norm.deviation === null) {
    return null;
  }
  const low = norm.mean - USUAL * norm.deviation;
  const high = norm.mean + USUAL * norm.deviation;
  return [Math.max(low, norm.lowest ?? low), Math.min(high, norm.highest ?? high)];
}

/** What resolutions that are no fix say, as they are chosen. */
export const EFFECTS = {
  "no action needed": "no action was needed",
  "did not help": "what was tried did not help",
  superseded: "something else is done by now",
};
export type Effect = keyof typeof EFFECTS;

export interface Remedy {
  text: string;
  author: string;
  tag: string | null;
  at: string;
  effect: string | null;
  superseded_by: string | null;
  link: string | null;
  recorded_tag: string | null;
}

/** What was done about a past alert, unless it did not help. */
function findFix(hit: Hit): Remedy | null {
  const remedy = findRemedy(hit);
  return remedy?.effect === "did not help" ? null : remedy;
}

/** The tag of what is to be done by a resolution: that of its fix, or of what is done instead. */
function tagOf(remedy: Remedy | null): string | null {
  return remedy && (remedy.superseded_by ?? remedy.tag ?? remedy.effect);
}

function describeFix(remedy: Remedy): string {
  if (remedy.effect === "no action needed") {
    return `no action was needed (${remedy.text})`;
  }
  return remedy.superseded_by ? `${remedy.superseded_by}, in place of: ${remedy.text}` : remedy.text;
}

/** What was done about a past alert: the newest resolution, else the newest note. */
export function findRemedy(hit: Hit): Remedy | null {
  const notes = [...(hit.past?.notes ?? [])].reverse();
  const remedy = notes.find((note) => note.kind === "resolution") ?? notes.find((note) => note.kind === "note");
  return remedy ?? null;
}

/** The summary of a past alert, else its key: `host=lund-1`. */
export function describeHit({ past }: Hit): string {
  if (!past) {
    return "Deleted event";
  }
  const parts = Object.entries(past.key).map(([name, value]) => `${name}=${formatTerm(value)}`);
  return past.annotations?.summary || parts.join(", ");
}

/** Series of which the event has an attribute come first: the alert is about them. */
export function sortSeries(series: readonly Series[], attributes: Row): Series[] {
  const rank = ({ column }: Series) => (column in attributes ? 0 : 1);
  return [...series].sort((one, other) => rank(one) - rank(other));
}

/** `lasted 12 min` */
export function describeLength(hit: Hit): string | null {
  const past = hit.past;
  if (!past?.starts_at || !(past.ends_at ?? past.last_at)) {
    return null;
  }
  if (past.alert && !past.ends_at) {
    return "has not ended";
  }
  const end = new Date(past.ends_at ?? (past.last_at as string)).getTime();
  return `lasted ${formatDuration(Math.max(0, end - new Date(past.starts_at).getTime()))}`;
}

/** `came back 2 times within 7 days`; within a shorter time for an alert that ended later. */
export function describeReturn(hit: Hit, now = Date.now()): string | null {
  if (!hit.past?.alert || !hit.past.ends_at) {
    return null;
  }
  const { again } = hit.past;
  const isOver = now - Date.parse(hit.past.ends_at) >= RETURN_PERIOD;
  if (!again) {
    return isOver ? "did not come back within 7 days" : "has not come back since";
  }
  return `came back ${again === 1 ? "once" : `${again} times`} ${isOver ? "within 7 days" : "since"}`;
}

export interface Conclusion {
  kind: "known" | "similar" | "none" | "wait";
  title: string;
  detail: string;
  /** The past alert that the title is about. */
  hit?: Hit;
  /** Of a known one: whether the similar alerts, by their scores, mostly had this resolution. */
  isAgreed?: boolean;
}

/** Why an alert has no answer of a similarity recall. `unknown`: its rule is not loaded, or gone. */
export type Comparison = "expected" | "not fired" | "found in history" | "no recall" | "unknown";

const UNCOMPARED: Record<Comparison, Conclusion> = {
  expected: {
    kind: "wait",
    title: "Not compared yet",
    detail: "The comparison begins when the alert fires and its context is settled.",
  },
  "not fired": { kind: "none", title: "Not compared with past alerts", detail: "It has ended before it fired." },
  "found in history": {
    kind: "none",
    title: "Not compared with past alerts",
    detail: "It was found in history: recalls are for alerts that fire live.",
  },
  "no recall": { kind: "none", title: "Not compared with past alerts", detail: "Its rule has no similarity recall." },
  unknown: { kind: "wait", title: "No comparison with past alerts so far", detail: "" },
};

/** How probable a match is, of a final answer by another measure than `learned`. */
interface Match {
  withheld: boolean;
  episodes: number;
  probability: number | null;
  interval: [number, number] | null;
  nothing_comparable: number | null;
  nothing_comparable_interval: [number, number] | null;
}

function readMatch(answer: Answer): Match | null {
  return (answer.match as Match | null | undefined) ?? null;
}

/** Whether probably nothing in the history is of the same kind. */
function isProbablyUnlike(answer: Answer): boolean {
  const match = readMatch(answer);
  if (match) {
    return match.nothing_comparable !== null && match.nothing_comparable > 0.5;
  }
  return typeof answer.comparable === "number" && answer.comparable < 0.2;
}

/** `The best match is of the same kind with a probability of 31 % (20–45 %).`; empty if nothing is known yet. */
function describeMatch(answer: Answer): string {
  const match = readMatch(answer);
  if (match?.withheld) {
    return `How probable a match is: too few to say. ${match.episodes} episodes of known resolution; at least 20 are needed.`;
  }
  const sentences = [];
  if (typeof answer.comparable === "number") {
    const interval = match?.interval ? ` (${formatInterval(match.interval)})` : "";
    sentences.push(`The best match is of the same kind with a probability of ${formatPercent(answer.comparable)}${interval}.`);
  }
  if (match && match.nothing_comparable !== null && match.nothing_comparable_interval !== null) {
    const interval = formatInterval(match.nothing_comparable_interval);
    sentences.push(`Nothing is comparable with a probability of ${formatPercent(match.nothing_comparable)} (${interval}).`);
  }
  return sentences.join(" ");
}

/** One sentence about the past of an alert. `comparison`: what to expect without an answer. */
export function conclude(answer: Answer | undefined, comparison: Comparison): Conclusion {
  if (answer === undefined) {
    return UNCOMPARED[comparison];
  }
  const coverage = coverageOf(answer);
  if (coverage === null) {
    const detail = answer.error ?? "No part of the history has been read yet.";
    return { kind: isOpen(answer) ? "wait" : "none", title: isOpen(answer) ? "Looking for similar past alerts" : "No answer", detail };
  }
  const sureText = describeMatch(answer);
  const isComplete = !isPartOfHistory(coverage);
  const hits = answer.hits ?? [];
  const forecast = readForecast(answer);
  // With a forecast, the probability of none of its resolutions says the same, and more.
  const isUnlike = forecast === null && isProbablyUnlike(answer);
  if (!hits.length || isUnlike) {
    const place = isComplete ? "in its history" : coverage.final ? "in the history that was read" : "so far";
    return {
      kind: coverage.final || hits.length ? "none" : "wait",
      title: `Nothing comparable ${place}`,
      detail: [isComplete && !hits.length ? "No past alert of this rule shares a distinguishing term." : "", sureText].filter(Boolean).join(" "),
    };
  }
  if (forecast && describeForecast(forecast) === null) {
    const detail = `None of the known resolutions with a probability of ${formatPercent(forecast.newTag)}.`;
    return { kind: "similar", title: "Probably something new", detail };
  }
  const solved = hits.filter((hit) => findFix(hit) !== null);
  const probableTag = forecast?.tags[0][0] ?? null;
  const hit = solved.find((entry) => probableTag !== null && tagOf(findFix(entry)) === probableTag) ?? solved.at(0);
  const remedy = hit && findFix(hit);
  if (!remedy) {
    const isTried = hits.some((entry) => findRemedy(entry) !== null);
    const what = isTried ? "what was tried did not help" : "nobody noted what fixed them";
    return { kind: "similar", title: `Similar past alerts, but ${what}`, detail: sureText, hit: hits[0] };
  }
  // The forecast weighs what similar alerts were; their bare number may say something else.
  const isAgreed = forecast !== null || agreesOn(solved, tagOf(remedy));
  const tags = forecast ? "" : describeTags(solved, tagOf(remedy), isAgreed);
  const detail = [tags, sureText].filter(Boolean).join(" ");
  return { kind: "known", title: describeFix(remedy), detail, hit, isAgreed };
}

/** Whether a resolution has at least half of the scores of resolved alerts; without a tag, none contradicts another. */
function agreesOn(solved: readonly Hit[], tag: string | null): boolean {
  const tagged = solved.filter((hit) => tagOf(findFix(hit)));
  const sum = (hits: readonly Hit[]) => hits.reduce((total, { score }) => total + score, 0);
  const same = tagged.filter((hit) => tagOf(findFix(hit)) === tag);
  return tag === null || sum(same) >= sum(tagged) / 2;
}

/** `Resolutions of the 9 similar alerts: restart 1, add-memory 5.` The one of the shown remedy is first. */
function describeTags(solved: readonly Hit[], first: string | null, isAgreed: boolean): string {
  const counts = countTags(solved);
  if (solved.length < 2 || !counts.length) {
    return "";
  }
  const shown = counts.filter(([tag]) => tag === first).concat(counts.filter(([tag]) => tag !== first));
  const texts = shown.slice(0, MAX_TAGS).map(([tag, count]) => `${tag} ${count}`);
  const start = isAgreed ? "Resolutions" : "Different resolutions";
  return `${start} of the ${solved.length} similar alerts: ${texts.join(", ")}${shown.length > MAX_TAGS ? ", and others" : ""}.`;
}

/** The tags of the resolutions of similar alerts, and probable ones: those that a new resolution may have as well. */
export function listTags(answer: Answer | undefined): string[] {
  const probable = (readForecast(answer)?.tags ?? []).map(([tag]) => tag);
  return [...new Set([...probable, ...countTags(answer?.hits ?? []).map(([tag]) => tag)])];
}

function countTags(hits: readonly Hit[]): [string, number][] {
  const counts = new Map<string, number>();
  for (const hit of hits) {
    const tag = tagOf(findFix(hit));
    if (tag) {
      counts.set(tag, (counts.get(tag) ?? 0) + 1);
    }
  }
  return [...counts].sort((one, other) => other[1] - one[1]);
}

/** The terms of contexts, as the comparison names them: `process=tar`. */
export function listTerms(contexts: Record<string, unknown> | null | undefined): Map<string, string[]> {
  const terms = new Map<string, string[]>();
  for (const [name, rows] of Object.entries(contexts ?? {})) {
    const names = (rows as Row[]).flatMap((row) =>
      Object.entries(row).map(([column, value]) => `${column}=${formatTerm(value)}`),
    );
    terms.set(name, [...new Set(names)]);
  }
  return terms;
}

function formatTerm(value: unknown): string {
  return typeof value === "object" && value !== null ? JSON.stringify(value) : String(value);
}

function numberOf(row: Row | undefined, names: readonly string[]): number | null {
  for (const name of names) {
    const value = row?.[name];
    if (typeof value === "number" && Number.isFinite(value)) {
      return value;
    }
  }
  return null;
}
