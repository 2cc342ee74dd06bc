// The one client of the API. Types are generated from its OpenAPI document.

import type { components } from "./schema";

type Schemas = components["schemas"];
export type Alert = Schemas["AlertRow"];
export type AlertDelivery = Schemas["AlertDeliveryRow"];
export type AlertDetails = Schemas["AlertDetails"];
export type AlertPage = Schemas["AlertPage"];
export type AlertReport = Schemas["AlertReport"];
export type Answer = Schemas["RecallAnswer"];
export type BacktestStatus = Schemas["BacktestStatus"];
export type ChangedAlert = Schemas["ChangedAlert"];
export type ChangedRule = Schemas["ChangedRule"];
export type Problem = Schemas["Problem"];
export type QueryState = Schemas["TaskSummaryRow"];
export type RuleCheck = Schemas["RuleCheck"];
export type RuleStep = Schemas["RuleStep"];
export type RuleText = Schemas["RuleText"];
export type RuleWeek = Schemas["RuleWeekRow"];
export type StartedQuery = Schemas["StartedQuery"];
export type AppliedRule = Schemas["AppliedRule"];
export type ChunkPage = Schemas["ChunkPage"];
export type ChunkSummary = Schemas["ChunkSummary"];
export type Command = Schemas["Command"];
export type DeadLetterPage = Schemas["DeadLetterPage"];
export type EventAnswers = Schemas["EventAnswers"];
export type EventDetails = Schemas["EventDetails"];
export type ForecastRecord = Schemas["ForecastRecordSummary"];
export type EventChanges = Schemas["EventChanges"];
export type Incident = Schemas["IncidentRow"];
export type IncidentDetails = Schemas["IncidentDetails"];
export type IncidentPage = Schemas["IncidentPage"];
export type PastIncident = Schemas["PastIncident"];
export type HistoryChange = Schemas["HistoryChangeRow"];
export type HeldBackAlert = Schemas["HeldBackAlert"];
export type Hit = Schemas["SimilarEvent"];
export type TagSummary = Schemas["TagSummary"];
export type Step = Schemas["RankedStep"];
export type Judgement = Schemas["EventJudgementRow"];
export type NormBand = Schemas["NormBand"];
export type NetworkGraph = Schemas["NetworkGraph"];
export type NetworkLink = Schemas["NetworkLink"];
export type NetworkNode = Schemas["NetworkNode"];
export type NetworkRows = Schemas["NetworkRows"];
export type Notification = Schemas["NotificationRow"];
export type Occurrence = Schemas["OccurrenceRow"];
export type RecallPage = Schemas["RecallPage"];
export type ReceiverStatus = Schemas["ReceiverStatus"];
export type ReceiverTest = Schemas["ReceiverTest"];
export type Revision = Schemas["RecallRevision"];
export type RuleDetails = Schemas["RuleDetails"];
export type Series = Schemas["Series"];
export type Session = Schemas["Session"];
export type Silence = Schemas["SilenceState"];
export type SilencePreview = Schemas["SilencePreview"];
export type Status = Schemas["WorkspaceStatus"];
export type StreamSummary = Schemas["StreamSummary"];
export type StreamRecords = Schemas["StreamRecords"];
export type Timeline = Schemas["Timeline"];
export type Verb = Schemas["CommandBody"]["command"];

/** What an answer was computed from; times in microseconds. */
export interface Coverage {
  asked_from: number | null;
  read_from: number | null;
  read: number;
  left: number;
  failed: number;
  final: boolean;
  partial: boolean;
  by_summary?: number;
  hopeful?: number | null;
  ended?: Record<string, number>;
  asked_to?: number;
  ranges?: number;
  unread?: Record<string, [number, number]>;
}

export type Row = Record<string, unknown>;
type Query = Record<string, string | number | boolean | readonly string[] | undefined>;

const PREFIX = "/api/v1";
let csrfToken = "";

/** A problem that the server reports (RFC 9457). */
export class ApiError extends Error {
  constructor(
    readonly status: number,
    message: string,
  ) {
    super(message);
  }
}

/** What an operator is told when an action failed. */
export function describeProblem(action: string, error: unknown): string {
  const { status, message } = error as ApiError;
  if (isLost(status)) {
    return `${action}: ${status ? message : "the server does not answer."} Try again: it is stored once at most.`;
  }
  if (status === 403) {
    return `${action}: not allowed. ${message}`;
  }
  return `${action}: not done. ${message}`;
}

export async function loadSession(): Promise<Session> {
  const session = await get<Session>("/sessions/current");
  csrfToken = session.csrf_token ?? "";
  return session;
}

export function get<Result>(path: string, query: Query = {}, signal?: AbortSignal): Promise<Result> {
  return send<Result>(path + encodeQuery(query), { signal });
}

/** Whether a change may have been made although its answer says nothing of it: also a proxy's 502, 503 and 504. */
function isLost(status: number): boolean {
  return [0, 502, 503, 504].includes(status);
}

const LOST_KEY_LIFETIME = 3_600_000; // milliseconds; the same text after that is a new change
/** Keys of changes whose answer was lost, and when, by path and content. */
const lostKeys = new Map<string, { key: string; at: number }>();

/** The key of a change whose answer was lost a short time ago; it is forgotten. */
function takeLostKey(change: string): string | undefined {
  const oldest = Date.now() - LOST_KEY_LIFETIME;
  for (const [other, { at }] of lostKeys) {
    if (at < oldest) {
      lostKeys.delete(other);
    }
  }
  const lost = lostKeys.get(change);
  lostKeys.delete(change);
  return lost?.key;
}

/** A change. Its repetition after a lost connection is stored at most once. */
export async function post<Result>(path: string, body: unknown): Promise<Result> {
  const content = JSON.stringify(body);
  const change = `${path} ${content}`;
  const key = takeLostKey(change) ?? crypto.randomUUID?.() ?? `${Date.now()}-${Math.random()}`;
  try {
    return await send<Result>(path, {
      method: "POST",
      body: content,
      headers: { "Content-Type": "application/json", "X-CSRF-Token": csrfToken, "Idempotency-Key": key },
    });
  } catch (error) {
    if (isLost((error as ApiError).status)) {
      lostKeys.set(change, { key, at: Date.now() });
    }
    throw error;
  }
}

/** Delete something, or end it. */
export function remove<Result>(path: string): Promise<Result> {
  return send<Result>(path, { method: "DELETE", headers: { "X-CSRF-Token": csrfToken } });
}

export async function logOut(): Promise<void> {
  await send("/sessions/current", { method: "DELETE", headers: { "X-CSRF-Token": csrfToken } });
  openLogin();
}

/** Open the login page, which returns to this one. */
export function openLogin(): void {
  sessionStorage.setItem("moirae.page", location.pathname + location.search);
  location.assign("/login");
}

export function encodeQuery(query: Query): string {
  const parameters = new URLSearchParams();
  for (const [name, value] of Object.entries(query)) {
    if (value === undefined || value === "") {
      continue;
    }
    const values = Array.isArray(value) ? value : [value];
    values.forEach((entry) => parameters.append(name, String(entry)));
  }
  const text = parameters.toString();
  return text ? `?${text}` : "";
}

async function send<Result>(path: string, options: RequestInit): Promise<Result> {
  let response: Response;
  try {
    response = await fetch(PREFIX + path, { credentials: "same-origin", ...options });
  } catch (error) {
    if (options.signal?.aborted) {
      throw error;
    }
    throw new ApiError(0, "The server does not answer.");
  }
  if (response.status === 401) {
    openLogin();
    throw new ApiError(401, "The session has ended.");
  }
  if (!response.ok) {
    const problem = await response.json().catch(() => null);
    throw new ApiError(response.status, problem?.detail ?? `The server answers ${response.status}.`);
  }
  return response.status === 204 ? (undefined as Result) : response.json();
}
