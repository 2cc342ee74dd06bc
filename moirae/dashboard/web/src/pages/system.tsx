import { Alert as Message, Button, Card, CardBody, CardTitle, PageSection, Progress, Title } from "../components/library";
import { useState } from "react";
import { Link } from "react-router";
import { type ChunkPage, type ChunkSummary, type DeadLetterPage, type RecallPage, type Status, type StreamSummary, describeProblem, get, post } from "../api";
import { Pending, StateLabel, Time, formatCount, shortName, useTitle } from "../components/common";
import { ClockCard, InputCard, RestartCard, TopicCard } from "../components/conditions";
import { ForecastRecordCard } from "../components/forecasts";
import { Problems } from "../components/problems";
import { LiveProblem } from "../components/process";
import { DataTable } from "../components/rows";
import { StreamDetails } from "../components/streams";
import { LongText } from "../components/text";
import { useLoaded } from "../load";
import { formatBytes, formatDay, formatDuration } from "../time";
import { useIsOperator } from "../session";

const INTERVAL = 5_000; // milliseconds
const MAX_RECALLS = 15; // shown
const SLOW_INTERVAL = 30_000; // milliseconds, for what reads the archive

export function SystemPage() {
  useTitle("System");
  return (
    <PageSection>
      <Title headingLevel="h1">System</Title>
      <div className="system-grid">
        <StatusCards />
        <RecallCard />
        <ForecastRecordCard />
        <StreamCard />
        <ChunkCard />
        <DeadLetterCard />
      </div>
    </PageSection>
  );
}

function StatusCards() {
  const status = useLoaded((signal) => get<Status>("/status", { brief: true }, signal), [], INTERVAL);
  if (status.data === null) {
    return <Pending error={status.error} />;
  }
  const ingest = status.data.ingest as unknown as Ingest | null;
  return (
    <>
      <ProcessCard status={status.data} ingest={ingest} />
      <RestartCard status={status.data} />
      <TopicCard status={status.data} />
      <InputCard status={status.data} />
      <ClockCard status={status.data} />
      <StorageCard storage={status.data.storage} />
    </>
  );
}

function ProcessCard({ status, ingest }: { status: Status; ingest: Ingest | null }) {
  const { live, problems, warnings, processes, disks, recall_queue: queue } = status;
  return (
    <Card isCompact>
      <CardTitle component="h2">Processes</CardTitle>
      <CardBody>
        <Problems status={status} />
        {warnings.map((text) => (
          <Message key={text} variant="warning" isInline isPlain title={text} />
        ))}
        <LiveProblem condition={live} isPlain />
        {live === "running" && !problems.length && !warnings.length && <Message variant="success" isInline isPlain title="No problem is known" />}
        <DataTable
          label="Processes"
          columns={["Process", "State", "Heartbeat", "Activity", "Error"]}
          rows={processes.map((process) => [
            process.role,
            <StateLabel key="state" state={process.alive ? "running" : "ended"} />,
            <Time key="beat" value={process.beat_at} brief />,
            process.state,
            <LongText key="error" text={process.error ?? ""} />,
          ])}
        />
        {ingest && <p>{describeIngest(ingest)}</p>}
        <p>
          {queue.queued
            ? `${formatCount(queue.queued, "recall")} of firing alerts queued, the oldest for ${formatDuration(queue.oldest_seconds * 1_000)}`
            : "No recall of a firing alert is queued"}
        </p>
        {disks.map((disk) => (
          <p key={String(disk.path)} className="note">
            {String(disk.path)}: {formatBytes(Number(disk.free_bytes))} free{disk.full ? ", full" : ""}
          </p>
        ))}
      </CardBody>
    </Card>
  );
}

/** What the live process has done in its last batch. */
interface Ingest {
  batch: number;
  engine: string;
  rows_per_second: number;
  tasks: number;
  executors: number;
  batches: Record<string, number>;
}

/** `Ingest: batch 248 by engine local, 3,526 rows/s (batches: 246 local, 2 spark)` */
function describeIngest({ batch, engine, rows_per_second, tasks, executors, batches }: Ingest): string {
  const rate = Math.round(rows_per_second).toLocaleString("en");
  const spread = tasks ? `, ${formatCount(tasks, "task")} on ${formatCount(executors, "executor")}` : "";
  const counts = Object.entries(batches).map(([name, count]) => `${count.toLocaleString("en")} ${name}`);
  return `Ingest: batch ${batch.toLocaleString("en")} by engine ${engine}, ${rate} rows/s${spread} (batches: ${counts.join(", ")})`;
}

/** What the workspace takes on disk by kind, and what the retention of each stream will take. */
function StorageCard({ storage }: { storage: Status["storage"] }) {
  const kinds = Object.entries(storage.kinds).filter(([, size]) => size > 0);
  const total = kinds.reduce((sum, [, size]) => sum + size, 0);
  return (
    <Card isCompact>
      <CardTitle component="h2">Storage{storage.measured_at ? ` (${formatBytes(total)})` : ""}</CardTitle>
      <CardBody>
        {!storage.measured_at && <p className="note">Not measured yet: the live process does it every five minutes.</p>}
        {storage.measured_at && (
          <>
            <DataTable label="Bytes by kind" columns={["Kind", "Size"]} rows={kinds.map(([kind, size]) => [kind, formatBytes(size)])} />
            <DataTable
              label="Bytes by stream"
              columns={["Stream", "Columns", "Place", "Summaries", "A day", "Kept for", "Kept in all"]}
              rows={storage.streams.map((stream) => [
                stream.stream,
                formatBytes(stream.kinds.columns ?? 0),
                formatBytes(stream.kinds.place ?? 0),
                formatBytes(stream.kinds.summaries ?? 0),
                stream.bytes_per_day === null ? "–" : formatBytes(stream.bytes_per_day),
                stream.keep_seconds === null ? "no end" : formatDuration(stream.keep_seconds * 1_000),
                stream.keep_bytes === null ? "–" : formatBytes(stream.keep_bytes),
              ])}
            />
            <p className="note">
              Measured <Time value={storage.measured_at} brief />
            </p>
          </>
        )}
      </CardBody>
    </Card>
  );
}

/** Open recalls with their tickets; the share of the worker is that of the tickets. */
function RecallCard() {
  const page = useLoaded(
    (signal) => get<RecallPage>("/recalls", { state: ["running", "waiting", "suspended"], limit: MAX_RECALLS, count: true }, signal),
    [],
    INTERVAL,
  );
  const recalls = page.data?.recalls ?? [];
  const foreground = recalls.filter(({ level }) => level === 0);
  const tickets = foreground.reduce((sum, recall) => sum + recall.tickets, 0);
  return (
    <Card isCompact>
      <CardTitle component="h2">Open recalls{page.data?.total ? ` (${page.data.total.toLocaleString("en")})` : ""}</CardTitle>
      <CardBody>
        {page.data === null && <Pending error={page.error} />}
        {page.data && !recalls.length && <p className="note">No recall is open.</p>}
        {recalls.some(({ level }) => level > 0) && (
          <p className="note">Those that run when idle are for past alerts, or read history in advance.</p>
        )}
        {recalls.length > 0 && (
          <DataTable
            label="Open recalls"
            columns={["Recall", "State", "Tickets", "Share", "Chunks", "Cost", "Requested"]}
            rows={recalls.map((recall) => [
              <Link key="recall" to={`/alerts/${recall.eid}`}>
                {shortName(recall.rule)} {recall.recall}
              </Link>,
              <RecallState key="state" recall={recall} />,
              recall.tickets,
              recall.level === 0 ? `${Math.round((recall.tickets / Math.max(1, tickets)) * 100)} %` : "when idle",
              `${recall.read} of ${recall.pieces ?? "?"}`,
              formatDuration(recall.seconds * 1_000),
              <Time key="at" value={recall.created_at} brief />,
            ])}
          />
        )}
      </CardBody>
    </Card>
  );
}

/** The state of a recall, and why its last query failed. */
function RecallState({ recall }: { recall: RecallPage["recalls"][number] }) {
  return (
    <>
      <StateLabel state={recall.state} />
      {recall.retry_at && (
        <span className="note">
          {" "}
          tried again <Time value={recall.retry_at} brief />
        </span>
      )}
      {recall.error && (
        <p className="note error">
          <LongText text={recall.error} />
        </p>
      )}
    </>
  );
}

function StreamCard() {
  const [shown, setShown] = useState("");
  const streams = useLoaded((signal) => get<StreamSummary[]>("/streams", {}, signal), [], SLOW_INTERVAL);
  return (
    <Card isCompact>
      <CardTitle component="h2">Streams</CardTitle>
      <CardBody>
        {streams.data === null ? (
          <Pending error={streams.error} />
        ) : !streams.data.length ? (
          <p className="note">No stream yet: it appears with its first rows.</p>
        ) : (
          <>
          <DataTable
            label="Streams"
            columns={["Stream", "Newest", "Behind the newest stream", "Rows", "Late", "Rejected", "Size"]}
            rows={streams.data.map((stream) => [
              <Button
                key="stream"
                variant="link"
                isInline
                aria-expanded={stream.stream === shown}
                onClick={() => setShown(stream.stream === shown ? "" : stream.stream)}
              >
                {stream.stream}
              </Button>,
              stream.newest ? <Time key="newest" value={stream.newest} brief /> : "none",
              stream.lag === null ? "–" : formatDuration(stream.lag * 1_000),
              stream.rows.toLocaleString("en"),
              stream.late.toLocaleString("en"),
              (stream.malformed + stream.quarantined + stream.conflicts + stream.expired).toLocaleString("en"),
              formatBytes(stream.bytes),
            ])}
          />
          {streams.data
            .filter((stream) => stream.stream === shown)
            .map((stream) => (
              <StreamDetails key={stream.stream} stream={stream} />
            ))}
          </>
        )}
      </CardBody>
    </Card>
  );
}

async function loadChunks(signal: AbortSignal): Promise<ChunkSummary[]> {
  const chunks: ChunkSummary[] = [];
  let cursor: string | undefined;
  do {
    const page: ChunkPage = await get<ChunkPage>("/chunks", { limit: 1_000, cursor }, signal);
    chunks.push(...page.chunks);
    cursor = page.next ?? undefined;
  } while (cursor !== undefined);
  return chunks;
}

function ChunkCard() {
  const chunks = useLoaded(loadChunks, [], SLOW_INTERVAL);
  const states = ["present", "recent", "old", "expired"];
  const all = chunks.data ?? [];
  return (
    <Card isCompact>
      <CardTitle component="h2">Chunks of history</CardTitle>
      <CardBody>
        {chunks.data === null && <Pending error={chunks.error} />}
        {chunks.data && !all.length && <p className="note">No rows are archived yet.</p>}
        {states.map((state) => {
          const members = all.filter((chunk) => chunk.state === state);
          const rows = members.reduce((sum, chunk) => sum + chunk.rows, 0);
          const from = members[0]?.from;
          return (
            members.length > 0 && (
              <div key={state} className="coverage">
                <Progress
                  value={Math.round((members.length / all.length) * 100)}
                  title={
                    <>
                      <StateLabel state={state} /> {formatCount(members.length, "chunk")}
                    </>
                  }
                  size="sm"
                  measureLocation="none"
                  aria-label={`${state} chunks`}
                />
                <p className="note">
                  {formatCount(rows, "row")}
                  {from && `, from ${formatDay(from)}`}
                </p>
              </div>
            )
          );
        })}
      </CardBody>
    </Card>
  );
}

function DeadLetterCard() {
  const page = useLoaded((signal) => get<DeadLetterPage>("/dead-letters", { limit: 20, count: true }, signal), [], INTERVAL);
  const isOperator = useIsOperator();
  const [effect, setEffect] = useState("");
  const [problem, setProblem] = useState("");
  async function retry(body: unknown): Promise<void> {
    setProblem("");
    try {
      const { marked } = await post<{ marked: string[] }>("/dead-letters/retry", body);
      setEffect(`${formatCount(marked.length, "dead letter")} marked; the live process retries them.`);
    } catch (error) {
      setProblem(describeProblem("Retry", error));
    }
    page.reload();
  }
  const letters = page.data?.dead_letters ?? [];
  return (
    <Card isCompact>
      <CardTitle component="h2">Dead letters{page.data?.total ? ` (${page.data.total.toLocaleString("en")})` : ""}</CardTitle>
      <CardBody>
        {page.data === null && <Pending error={page.error} />}
        {page.data && !letters.length && <p className="note">No record was rejected.</p>}
        <div role="status">{effect && !problem && <Message isInline isPlain variant="success" title={effect} />}</div>
        <div role="alert">{problem && <Message isInline isPlain variant="danger" title={problem} />}</div>
        {letters.length > 0 && (
          <>
            {isOperator && (
              <Button variant="secondary" onClick={() => void retry({ all: true })}>
                Retry all
              </Button>
            )}
            <DataTable
              label="Dead letters"
              columns={["Record", "Reason", "Detail", "Content", "Rejected", "Retry"]}
              rows={letters.map((letter) => [
                `${letter.stream} ${letter.id}`,
                <span key="reason" className="whole">
                {letter.reason}
              </span>,
                <LongText key="detail" text={letter.detail} />,
                <code key="raw" className="raw">
                  <LongText text={letter.raw} length={200} />
                </code>,
                <Time key="at" value={letter.at} brief />,
                letter.retry ? (
                  "waiting"
                ) : isOperator ? (
                  <Button key="retry" size="sm" variant="link" onClick={() => void retry({ ids: [letter.id] })}>
                    Retry
                  </Button>
                ) : (
                  ""
                ),
              ])}
            />
          </>
        )}
      </CardBody>
    </Card>
  );
}
