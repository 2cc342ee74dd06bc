-- The control plane of one workspace. Data lives in Delta tables; here is what steers it and what people ask for.
-- Applied once to each database, and again when this text has changed: every statement may run on a database that an
-- older text has made. Times are UTC.

CREATE TABLE IF NOT EXISTS schema_version (
    version integer PRIMARY KEY
);
INSERT INTO schema_version VALUES (1) ON CONFLICT DO NOTHING;

-- Who may write. A process of a role takes the next epoch when it starts and names it in each transaction:
-- one that was replaced finds a newer epoch and stops.
CREATE TABLE IF NOT EXISTS processes (
    role       text PRIMARY KEY,
    epoch      bigint NOT NULL,
    pid        integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    beat_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    state      text NOT NULL,
    -- Start of the process to its first committed batch.
    first_commit_seconds double precision
);

-- Who may ask the server for what. Of a token only its SHA-256 is kept.
CREATE TABLE IF NOT EXISTS tokens (
    id         text PRIMARY KEY,
    name       text NOT NULL,
    role       text NOT NULL CHECK (role IN ('viewer', 'operator', 'admin')),
    hash       bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    revoked_at timestamptz
);
CREATE UNIQUE INDEX IF NOT EXISTS tokens_by_name ON tokens (name) WHERE revoked_at IS NULL;

-- How far each stream has been read, in event time.
CREATE TABLE IF NOT EXISTS streams (
    name     text PRIMARY KEY,
    -- Newest event time of all finished source units; late or not is judged against it.
    newest   timestamptz,
    -- Point to which the stream was moved on without data, because it was idle or drained. Rows before it are late.
    advanced timestamptz
);

-- The ingest ledger: one row for each source unit (a file, a pushed batch, a range of a Kafka partition).
-- Counters belong to the unit and are replaced when it is read again, never added.
CREATE TABLE IF NOT EXISTS units (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream      text NOT NULL,
    unit        text NOT NULL,
    done        boolean NOT NULL DEFAULT false,
    newest      timestamptz,
    read        bigint NOT NULL DEFAULT 0,
    archived    bigint NOT NULL DEFAULT 0,
    late        bigint NOT NULL DEFAULT 0,
    duplicates  bigint NOT NULL DEFAULT 0,
    malformed   bigint NOT NULL DEFAULT 0,
    quarantined bigint NOT NULL DEFAULT 0,
    conflicts   bigint NOT NULL DEFAULT 0,
    -- Rows of a time that is kept no longer.
    expired     bigint NOT NULL DEFAULT 0,
    -- Archived rows that have left with their chunk when it expired.
    forgotten   bigint NOT NULL DEFAULT 0,
    done_at     timestamptz,
    UNIQUE (stream, unit)
);

ALTER TABLE units ADD COLUMN IF NOT EXISTS expired bigint NOT NULL DEFAULT 0;
ALTER TABLE units ADD COLUMN IF NOT EXISTS forgotten bigint NOT NULL DEFAULT 0;
-- Dead letters that are kept no longer. Units that will not be read again are folded into one row of their stream,
-- named by an empty text: how many.
ALTER TABLE units ADD COLUMN IF NOT EXISTS dropped bigint NOT NULL DEFAULT 0;
ALTER TABLE units ADD COLUMN IF NOT EXISTS folded bigint NOT NULL DEFAULT 0;

CREATE TABLE IF NOT EXISTS dead_letters (
    unit_id  bigint NOT NULL REFERENCES units (id) ON DELETE CASCADE,
    line     bigint NOT NULL,
    reason   text NOT NULL,
    detail   text NOT NULL,
    raw      bytea NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (unit_id, line)
);
ALTER TABLE dead_letters DROP CONSTRAINT IF EXISTS dead_letters_reason_check, ADD CONSTRAINT dead_letters_reason_check
    CHECK (reason IN ('malformed', 'quarantined', 'conflict', 'expired'));

-- Somebody wants it retried; the live process does that.
ALTER TABLE dead_letters ADD COLUMN IF NOT EXISTS retry boolean NOT NULL DEFAULT false;
CREATE INDEX IF NOT EXISTS dead_letters_by_time ON dead_letters (at);
CREATE INDEX IF NOT EXISTS dead_letters_to_retry ON dead_letters (unit_id, line) WHERE retry;
-- Of CSV: how its lines are read. NULL: they are JSON.
ALTER TABLE units ADD COLUMN IF NOT EXISTS fields text[];

-- How far each partition of a Kafka topic has been read: the offset of its next record, and in event time as a stream.
CREATE TABLE IF NOT EXISTS partitions (
    stream    text NOT NULL,
    partition text NOT NULL,
    next      bigint NOT NULL,
    newest    timestamptz,
    advanced  timestamptz,
    PRIMARY KEY (stream, partition)
);

-- What was posted under an idempotency key: the same key with other content is refused.
CREATE TABLE IF NOT EXISTS pushes (
    stream text NOT NULL,
    key    text NOT NULL,
    digest bytea NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (stream, key)
);
CREATE INDEX IF NOT EXISTS pushes_by_time ON pushes (at);

-- The chunk catalog: intervals [from_ts, to_ts) of event time that cut the whole archive, without gap or overlap.
-- from_ts NULL: from the beginning of time (the oldest). to_ts NULL: not fixed yet (the newest).
CREATE TABLE IF NOT EXISTS chunks (
    id        integer PRIMARY KEY,
    from_ts   timestamptz,
    to_ts     timestamptz,
    state     text NOT NULL CHECK (state IN ('present', 'recent', 'old', 'expired')),
    closed_at timestamptz,
    expired_at timestamptz,
    -- How often rows came late into it, and when they did last, by the clock.
    version   bigint NOT NULL DEFAULT 0,
    late_at   timestamptz,
    UNIQUE NULLS NOT DISTINCT (from_ts),
    UNIQUE NULLS NOT DISTINCT (to_ts),
    CHECK (from_ts < to_ts)
);

ALTER TABLE chunks ADD COLUMN IF NOT EXISTS expired_at timestamptz;
ALTER TABLE chunks ADD COLUMN IF NOT EXISTS version bigint NOT NULL DEFAULT 0;
ALTER TABLE chunks ADD COLUMN IF NOT EXISTS late_at timestamptz;
ALTER TABLE chunks DROP COLUMN IF EXISTS clustered_at;

-- What was done for a chunk (see `archiver.lifecycle`), and at which version of it.
CREATE TABLE IF NOT EXISTS preparations (
    chunk   integer NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
    name    text NOT NULL,
    version bigint NOT NULL,
    done_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chunk, name)
);

-- Versions of small relations, as they were read: valid from a point of event time until the key's next version.
CREATE TABLE IF NOT EXISTS relation_versions (
    relation   text NOT NULL,
    key        jsonb NOT NULL,
    valid_from timestamptz NOT NULL,
    -- NULL: the row was gone from its source.
    row        jsonb,
    PRIMARY KEY (relation, key, valid_from)
);

-- When it was read, by the clock.
ALTER TABLE relation_versions ADD COLUMN IF NOT EXISTS at timestamptz NOT NULL DEFAULT clock_timestamp();

-- Desired rules, as applied, and what runs of them.
CREATE TABLE IF NOT EXISTS rules (
    rule       text PRIMARY KEY,
    version    text NOT NULL,
    -- Everything needed to run it, see `moirae.rules.definition`.
    definition jsonb NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE IF NOT EXISTS rules_revision (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    revision bigint NOT NULL
);
INSERT INTO rules_revision VALUES (true, 0) ON CONFLICT DO NOTHING;
-- The workspace's rule files, as a running workspace last took them in.
CREATE TABLE IF NOT EXISTS rule_files (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- How often another look was asked for, and up to which of these requests it was taken.
    asked     bigint NOT NULL DEFAULT 0,
    answered  bigint NOT NULL DEFAULT 0,
    -- A hash of their names and contents; NULL: never looked at.
    digest    text,
    looked_at timestamptz,
    -- Why they were refused, one text a problem; NULL: they are applied.
    problems  jsonb
);
INSERT INTO rule_files VALUES (true) ON CONFLICT DO NOTHING;
-- The hash of files that are being checked, and how many processes have begun to and have not told what they found.
ALTER TABLE rule_files ADD COLUMN IF NOT EXISTS checking text;
ALTER TABLE rule_files ADD COLUMN IF NOT EXISTS tries integer NOT NULL DEFAULT 0;
CREATE TABLE IF NOT EXISTS deployments (
    rule       text NOT NULL,
    version    text NOT NULL,
    -- Events before this point of event time are settled. NULL: from the beginning of time.
    settled_to timestamptz,
    state      text NOT NULL CHECK (state IN ('running', 'quarantined', 'stopped')),
    failures   integer NOT NULL DEFAULT 0,
    error      text,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (rule, version)
);
-- From which event time on live has judged it without a break (NULL: from the beginning); from which on live knows by
-- itself what is the first event of an alert. What lies before is found by views.
ALTER TABLE deployments ADD COLUMN IF NOT EXISTS live_from timestamptz;
ALTER TABLE deployments ADD COLUMN IF NOT EXISTS corpus_from timestamptz;
-- Whether it is quarantined because it was not admitted, and for nothing that it did.
ALTER TABLE deployments ADD COLUMN IF NOT EXISTS refused boolean NOT NULL DEFAULT false;
-- Since when it runs no more; NULL: it runs, or has been stopped for long.
ALTER TABLE deployments ADD COLUMN IF NOT EXISTS stopped_at timestamptz;

-- Views: the events of a rule's version in a chunk that live has not judged are found, with the corpus they belong to.
CREATE TABLE IF NOT EXISTS views (
    rule     text NOT NULL,
    version  text NOT NULL,
    chunk    integer NOT NULL,
    -- Events of the chunk before this event time are all there; NULL: it was begun only.
    upto     timestamptz,
    -- How many there are, and how many of them are in the corpus.
    events   bigint NOT NULL DEFAULT 0,
    corpus   bigint NOT NULL DEFAULT 0,
    -- By which way it was last worked on: for itself, or because a recall asked.
    asked    boolean NOT NULL DEFAULT false,
    -- How often it was begun without an end, and what was wrong.
    tries    integer NOT NULL DEFAULT 0,
    error    text,
    seconds  double precision NOT NULL DEFAULT 0,
    done_at  timestamptz,
    PRIMARY KEY (rule, version, chunk)
);

-- Chunks of derived streams that are archived, by version of the stream.
CREATE TABLE IF NOT EXISTS derived_chunks (
    stream   text NOT NULL,
    version  text NOT NULL,
    chunk    integer NOT NULL,
    rows     bigint,
    tries    integer NOT NULL DEFAULT 0,
    error    text,
    seconds  double precision,
    done_at  timestamptz,
    PRIMARY KEY (stream, version, chunk)
);

-- What rules are charged with: failures; statements or processes that were stopped over them; floods.
CREATE TABLE IF NOT EXISTS rule_errors (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule     text NOT NULL,
    version  text NOT NULL,
    kind     text NOT NULL CHECK (kind IN ('error', 'time', 'memory', 'flood')),
    message  text NOT NULL,
    -- The row at which it fails, where one was found.
    event    jsonb,
    -- How often; of a flood, how many events were left out.
    times    bigint NOT NULL,
    first_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX IF NOT EXISTS rule_errors_once
    ON rule_errors (rule, version, kind, md5(message || coalesce(event::text, '')));

CREATE TABLE IF NOT EXISTS events (
    seq         bigint GENERATED ALWAYS AS IDENTITY,
    eid         uuid NOT NULL,
    rule        text NOT NULL,
    version     text NOT NULL,
    ts          timestamptz NOT NULL,
    fingerprint text NOT NULL,
    key         jsonb NOT NULL,
    attributes  jsonb NOT NULL,
    settled     boolean NOT NULL,
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (rule, version, eid)
);
-- Found by a view, after it was over.
ALTER TABLE events ADD COLUMN IF NOT EXISTS past boolean NOT NULL DEFAULT false;
CREATE INDEX IF NOT EXISTS events_by_time ON events (ts DESC, eid);
CREATE INDEX IF NOT EXISTS events_by_eid ON events (eid);
CREATE INDEX IF NOT EXISTS events_unsettled ON events (rule, fingerprint) WHERE NOT settled;
CREATE INDEX IF NOT EXISTS events_of_alert ON events (rule, fingerprint, ts);
CREATE INDEX IF NOT EXISTS events_by_seq ON events (seq) WHERE settled;

CREATE TABLE IF NOT EXISTS alerts (
    id          uuid PRIMARY KEY,
    eid         uuid NOT NULL,
    rule        text NOT NULL,
    version     text NOT NULL,
    fingerprint text NOT NULL,
    key         jsonb NOT NULL,
    labels      jsonb NOT NULL,
    annotations jsonb NOT NULL,
    state       text NOT NULL CHECK (state IN ('pending', 'firing', 'resolved', 'provisional', 'withdrawn')),
    -- Event times: its first event; the event at which it fired; its last event; the end.
    starts_at   timestamptz NOT NULL,
    fired_at    timestamptz,
    last_at     timestamptz NOT NULL,
    ends_at     timestamptz,
    events      bigint NOT NULL,
    -- The same, from settled events only: where the settled life goes on. NULL: nothing of it is settled.
    settled     jsonb,
    -- What history says of it, where the rule has a `where`; NULL: nothing (yet).
    verdict     text CHECK (verdict IN ('kept', 'held back', 'no history')),
    -- By the clock: when it was first written, and when it first stood as firing (provisional or settled).
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    raised_at   timestamptz,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Found by a view, after it was over: nobody is told.
ALTER TABLE alerts ADD COLUMN IF NOT EXISTS past boolean NOT NULL DEFAULT false;
CREATE INDEX IF NOT EXISTS alerts_open ON alerts (rule, fingerprint) WHERE ends_at IS NULL;
CREATE INDEX IF NOT EXISTS alerts_by_start ON alerts (starts_at DESC, id);
CREATE INDEX IF NOT EXISTS alerts_by_eid ON alerts (eid);
CREATE INDEX IF NOT EXISTS alerts_by_fingerprint ON alerts (rule, version, fingerprint);
CREATE INDEX IF NOT EXISTS alerts_by_update ON alerts (rule, updated_at);

-- What people did about an alert.
CREATE TABLE IF NOT EXISTS alert_notes (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    alert_id uuid NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    kind     text NOT NULL CHECK (kind IN ('ack', 'note', 'resolution')),
    author   text NOT NULL,
    text     text NOT NULL,
    tag      text,
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX IF NOT EXISTS alert_notes_by_alert ON alert_notes (alert_id);

-- What people say of single hits: whether a past event helps with an event. The last word counts.
CREATE TABLE IF NOT EXISTS judgements (
    eid      uuid NOT NULL,
    past_eid uuid NOT NULL,
    helps    boolean NOT NULL,
    author   text NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (eid, past_eid)
);
CREATE INDEX IF NOT EXISTS judgements_by_past ON judgements (past_eid);

-- What the scores of a similarity recall were worth, learned from resolved alerts: see `recall.similarity.calibration`.
CREATE TABLE IF NOT EXISTS calibrations (
    rule       text NOT NULL,
    version    text NOT NULL,
    recall     text NOT NULL,
    model      jsonb NOT NULL,
    learned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (rule, version, recall)
);

-- Contexts and surroundings of the events that recalls are about: by name, rows of columns.
CREATE TABLE IF NOT EXISTS contexts (
    rule         text NOT NULL,
    version      text NOT NULL,
    eid          uuid NOT NULL,
    ts           timestamptz NOT NULL,
    contexts     jsonb NOT NULL,
    surroundings jsonb NOT NULL,
    -- Every stream that the rule reads has passed the event: what is here stays.
    settled      boolean NOT NULL,
    -- In which order events entered the corpus of their rule, to be compared with; NULL: not in it (yet).
    corpus       bigint,
    PRIMARY KEY (rule, version, eid)
);
-- Computed by a view, after the event was over.
ALTER TABLE contexts ADD COLUMN IF NOT EXISTS past boolean NOT NULL DEFAULT false;
-- When it was computed as it is, by the clock.
ALTER TABLE contexts ADD COLUMN IF NOT EXISTS at timestamptz NOT NULL DEFAULT clock_timestamp();
CREATE SEQUENCE IF NOT EXISTS corpus_numbers;
CREATE UNIQUE INDEX IF NOT EXISTS contexts_by_number ON contexts (corpus);
CREATE INDEX IF NOT EXISTS contexts_open ON contexts (rule, ts) WHERE corpus IS NULL;
CREATE INDEX IF NOT EXISTS contexts_by_eid ON contexts (eid);
CREATE INDEX IF NOT EXISTS contexts_by_time ON contexts (ts);
-- The highest number of the corpus that is in the archive only: its chunk has expired.
CREATE TABLE IF NOT EXISTS corpus_forgotten (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint NOT NULL
);
INSERT INTO corpus_forgotten VALUES (true, 0) ON CONFLICT DO NOTHING;

-- The recall ledger: one task for each event and recall.
CREATE TABLE IF NOT EXISTS tasks (
    id         uuid PRIMARY KEY,
    eid        uuid NOT NULL,
    rule       text NOT NULL,
    version    text NOT NULL,
    recall     text NOT NULL,
    -- What is asked, and about what: see `recall.request`.
    request    jsonb NOT NULL,
    event      jsonb NOT NULL,
    state      text NOT NULL DEFAULT 'waiting',
    -- 0: somebody may be waiting; 1: the event was long past when it was found.
    level      integer NOT NULL DEFAULT 0,
    tickets    integer NOT NULL CHECK (tickets >= 1),
    -- Fixed at the first history query: pieces of history [low, high) in microseconds, in the order of reading, and
    -- the corpus that is counted.
    pieces     jsonb,
    corpus     bigint,
    -- How many pieces are done with; of these, how many failed, and how many, the first ones, a summary had ruled out.
    next       integer NOT NULL DEFAULT 0,
    failed     integer NOT NULL DEFAULT 0,
    skipped    integer NOT NULL DEFAULT 0,
    -- The partial answer so far; freed at the end.
    held       bytea,
    revision   integer NOT NULL DEFAULT 0,
    -- Rows of partial answers, or past events compared; of these, what was new to the answer; seconds of queries.
    rows       bigint NOT NULL DEFAULT 0,
    results    bigint NOT NULL DEFAULT 0,
    seconds    double precision NOT NULL DEFAULT 0,
    error      text,
    -- How often a process fell while it worked on the next piece.
    tries      integer NOT NULL DEFAULT 0,
    -- It was given up because it needs too much memory or time.
    exceeded   boolean NOT NULL DEFAULT false,
    -- The process that works on it, until when it need not give a sign, and how often the task was claimed: what was
    -- begun under an earlier claim counts for nothing.
    lease      bigint,
    lease_until timestamptz,
    fence      bigint NOT NULL DEFAULT 0,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at timestamptz,
    -- Since when it goes on without feedback; suspended: until when feedback is waited for.
    unasked_since timestamptz,
    deadline   timestamptz,
    first_at   timestamptz,
    ended_at   timestamptz
);
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS skipped integer NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS results bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS exceeded boolean NOT NULL DEFAULT false;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS fence bigint NOT NULL DEFAULT 0;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS unasked_since timestamptz;
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS deadline timestamptz;
ALTER TABLE tasks DROP CONSTRAINT IF EXISTS tasks_state_check, ADD CONSTRAINT tasks_state_check
    CHECK (state IN ('waiting', 'running', 'suspended', 'done', 'finalized', 'cancelled', 'failed'));
DROP INDEX IF EXISTS tasks_open;
-- Since when a query for it is under way: if its process does not come to its end, that counts as a try.
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS asked_at timestamptz;
-- From which rows an SQL answer comes: of each query the first of its pieces, the first after it, and how many appends
-- of each stream were there; null: it gave nothing.
ALTER TABLE tasks ADD COLUMN IF NOT EXISTS seen jsonb NOT NULL DEFAULT '[]';
CREATE INDEX IF NOT EXISTS tasks_waiting ON tasks (level, rule, (revision > 0), created_at, id)
    WHERE state = 'waiting';
CREATE INDEX IF NOT EXISTS tasks_exceeding ON tasks (rule, version, recall, ended_at) WHERE exceeded;
CREATE INDEX IF NOT EXISTS tasks_at_work ON tasks (lease) WHERE state = 'running';
CREATE INDEX IF NOT EXISTS tasks_suspended ON tasks (deadline) WHERE state = 'suspended';
CREATE SEQUENCE IF NOT EXISTS leases;
CREATE INDEX IF NOT EXISTS tasks_with_where ON tasks (rule, eid) WHERE request->>'where' IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_similar ON tasks (rule, version, ((event->>'ts')::bigint))
    WHERE request->>'kind' = 'similar';
CREATE INDEX IF NOT EXISTS tasks_by_eid ON tasks (eid);
CREATE INDEX IF NOT EXISTS tasks_ended ON tasks (((event->>'ts')::bigint)) WHERE ended_at IS NOT NULL;
CREATE INDEX IF NOT EXISTS tasks_by_rule ON tasks (rule, version);

-- Into how many of the chunks that a task has read rows have come late since it began: its answers may lack them.
CREATE OR REPLACE FUNCTION changed_since_read(task tasks) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(DISTINCT c.id) FROM jsonb_array_elements(task.pieces) WITH ORDINALITY AS p (piece, place)
    JOIN chunks c ON c.id = (p.piece->>0)::integer
    WHERE task.request->>'kind' = 'sql' AND p.place <= task.next AND c.late_at > task.started_at
$$;

-- Numbered answers of a task, without gaps. The last one of an ended task is its final answer.
CREATE TABLE IF NOT EXISTS revisions (
    task     uuid NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    number   integer NOT NULL,
    final    boolean NOT NULL,
    -- What the answer was computed from, see `recall.request.Coverage`.
    coverage jsonb NOT NULL,
    answer   jsonb NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (task, number)
);
-- For each row of an SQL answer, by output: value, low and high of what is likely over all that was asked for.
ALTER TABLE revisions ADD COLUMN IF NOT EXISTS estimates jsonb;

-- What people ask of recalls. `target`: which are meant, see `recall.commands`.
CREATE TABLE IF NOT EXISTS commands (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- Named by who asks: the same again is the same command.
    key     text NOT NULL UNIQUE,
    command text NOT NULL,
    target  jsonb NOT NULL,
    author  text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    done_at timestamptz,
    effect  jsonb
);
ALTER TABLE commands DROP CONSTRAINT IF EXISTS commands_command_check, ADD CONSTRAINT commands_command_check
    CHECK (command IN ('cancel', 'finalize', 'accelerate', 'refine'));
-- They once meant one event, had no key and told their effect in words.
DO $$ BEGIN
    IF EXISTS (SELECT FROM information_schema.columns WHERE table_schema = current_schema()
        AND (table_name, column_name) = ('commands', 'eid')) THEN
        ALTER TABLE commands ADD COLUMN key text, ADD COLUMN target jsonb;
        UPDATE commands SET key = 'command ' || id, target = jsonb_build_object('eid', eid);
        ALTER TABLE commands ALTER COLUMN key SET NOT NULL, ADD UNIQUE (key), ALTER COLUMN target SET NOT NULL,
            DROP COLUMN eid, ALTER COLUMN effect TYPE jsonb USING NULL;
    END IF;
END $$;
CREATE INDEX IF NOT EXISTS commands_open ON commands (id) WHERE done_at IS NULL;
