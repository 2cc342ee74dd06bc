-- The control plane of one workspace: metadata of the archive, rules, events and alerts, recalls.
-- Rows of streams are in Delta tables. An empty database gets this file; migrations/ holds the same
-- statements for databases of earlier versions. All times are UTC. Event times are times of rows;
-- all others are by the clock of the database server.

-- The identity of the workspace: one row. The archive holds `id` and `generation`, too.
CREATE TABLE workspace (
    one           boolean PRIMARY KEY DEFAULT true CHECK (one),
    id            uuid NOT NULL DEFAULT gen_random_uuid(),
    -- Counts the restores: a process of an earlier generation must not write any more.
    generation    integer NOT NULL DEFAULT 1,
    -- The backup from which it was last restored, the time of its state, and when it was restored;
    -- NULL: it never was.
    restored_from text,
    backed_up_at  timestamptz,
    restored_at   timestamptz,
    -- With which identities of erased rows, and conditions of erasures, are hashed.
    erasure_key   bytea NOT NULL
        DEFAULT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex'),
    -- Hashes of the values of the workspace file that all machines share, by key; NULL: no process
    -- has started with an external database.
    shared_values jsonb
);
INSERT INTO workspace DEFAULT VALUES;

-- Backups that were started by this workspace, as far as it knows.
CREATE TABLE backups (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- NULL until it is complete.
    name        text,
    destination text NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The time of the state that was backed up; NULL: not known yet.
    taken_at    timestamptz,
    -- NULL: it runs, or it failed or was killed.
    finished_at timestamptz,
    -- Rows of streams; bytes of all files, and of those that were copied.
    rows        bigint,
    bytes       bigint,
    new_bytes   bigint,
    error       text
);
CREATE INDEX backups_by_start ON backups (started_at);

-- The processes that write, one of each role. A process takes the next epoch of its role when it
-- starts, and checks it in each transaction: a process that was replaced finds a newer epoch, and
-- stops.
CREATE TABLE processes (
    role                 text PRIMARY KEY,
    epoch                bigint NOT NULL,
    pid                  integer NOT NULL,
    started_at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The last heartbeat.
    beat_at              timestamptz NOT NULL DEFAULT clock_timestamp(),
    state                text NOT NULL,
    -- Seconds from the start of the process to its first committed batch.
    first_commit_seconds double precision,
    -- Why and when the last process of the role failed; NULL: it did not, or another has run since.
    error                text,
    failed_at            timestamptz,
    -- Of the live process: the last batch with its engine, and batches by engine; NULL: none yet.
    ingest               jsonb,
    -- Of the live process: the hashes of the streams and relations of the workspace file as it has
    -- read it, by kind and name.
    declarations         jsonb,
    -- Host and home of the process; '': of an earlier version.
    machine              text NOT NULL DEFAULT '',
    -- How often the process has renewed its lease; NULL: it has none, the lock alone is its role.
    renewals             bigint
);

-- Processes that wait until the process of a role, on another machine, has ended.
CREATE TABLE waiting_processes (
    role       text NOT NULL,
    machine    text NOT NULL,
    pid        integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The last sign of life.
    beat_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (role, machine, pid)
);

-- Processes that ended without being asked to. `epoch`: NULL if the process ended before it took its
-- role. Of a process that was not started by `moirae up`, neither code nor signal is known.
CREATE TABLE process_exits (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    role       text NOT NULL,
    epoch      bigint,
    pid        integer NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    exit_code  integer,
    -- The signal that killed the process.
    signal     integer,
    -- By which the process ended, as far as it could store it.
    error      text,
    UNIQUE (role, epoch)
);

-- Metrics of the last process of each role, as its last heartbeat stored them; see
-- `moirae.runtime.metrics`.
CREATE TABLE process_metrics (
    role    text PRIMARY KEY,
    metrics jsonb NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- API tokens of the server. `hash`: SHA-256 of the token, which is not stored itself.
CREATE TABLE tokens (
    id         text PRIMARY KEY,
    name       text NOT NULL,
    role       text NOT NULL CHECK (role IN ('source', 'viewer', 'operator', 'admin')),
    hash       bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- NULL: the token is active.
    revoked_at timestamptz,
    -- The only stream for which a token with the role `source` may post; NULL: all.
    stream     text CHECK (stream IS NULL OR role = 'source'),
    -- Whether a token with the role `viewer` may start queries over the history.
    allow_query boolean NOT NULL DEFAULT false CHECK (NOT allow_query OR role = 'viewer')
);
CREATE UNIQUE INDEX tokens_by_name ON tokens (name) WHERE revoked_at IS NULL;

-- Browser sessions. `hash`: SHA-256 of the cookie. A session ends with its token.
CREATE TABLE sessions (
    hash       bytea PRIMARY KEY,
    token      text NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
);
-- One-time codes that open a session. `hash`: SHA-256 of the code, which is deleted when it is used.
CREATE TABLE login_codes (
    hash       bytea PRIMARY KEY,
    token      text NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    expires_at timestamptz NOT NULL
);

-- The audit log: each change by an operator. `author`: the name of the token, or the login name of
-- the command line. `via`: `cli`, `api` or `mcp`.
CREATE TABLE audit (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    author    text NOT NULL,
    via       text NOT NULL,
    operation text NOT NULL,
    arguments jsonb NOT NULL
);

-- Idempotency keys of changes by the API, with their responses. `digest`: SHA-256 of the operation
-- and its arguments; the same key with another digest is refused.
CREATE TABLE requests (
    author    text NOT NULL,
    key       text NOT NULL,
    operation text NOT NULL,
    digest    bytea NOT NULL,
    response  jsonb,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (author, key)
);
CREATE INDEX requests_by_time ON requests (at);

-- How far each stream has been read, in event time.
CREATE TABLE streams (
    name     text PRIMARY KEY,
    -- The newest event time of all finished source units.
    newest           timestamptz,
    -- To where the stream was advanced without data, when idle or drained. Rows before it are late.
    advanced         timestamptz,
    -- The newest event time of the rows that were not ahead of the clock of their unit. The
    -- watermark follows from it.
    newest_not_ahead timestamptz,
    -- To where the watermark has followed rows ahead of the clock. Rows before it are late.
    advanced_ahead   timestamptz,
    -- The newest clock at which a source unit was first read.
    clock            timestamptz,
    -- The keys whose rows were last furthest ahead of the clock, up to ten: objects with `key`
    -- (texts by column), `ahead` (microseconds) and `at` (the clock in microseconds).
    keys_ahead       jsonb NOT NULL DEFAULT '[]',
    -- The name that the stream is being given; NULL: none.
    renamed_to       text,
    -- The lateness under which it was last read, in microseconds.
    lateness         bigint,
    -- The names that it had before, oldest first.
    previous_names   text[] NOT NULL DEFAULT '{}',
    -- The event time of its first row that was not late; NULL: not known, or an earlier one may come.
    first            timestamptz,
    -- The number of the last append to its table whose rows `units` counts; NULL: not known.
    appends          bigint
);

-- Keys of streams for which a source has closed event time that the watermark has not reached.
CREATE TABLE closed_keys (
    stream    text NOT NULL,
    -- Of the topic whose records say so; empty: the stream has no partitions.
    partition text NOT NULL,
    -- The key columns then, and their values as text.
    columns   text[] NOT NULL,
    key       text[] NOT NULL,
    -- Rows of the key before it are late.
    closed    timestamptz NOT NULL,
    PRIMARY KEY (stream, partition, columns, key)
);

-- Summaries of closed chunks (`recall.summaries`), and what each has cost and saved. `loss`: why it is not kept.
CREATE TABLE summaries (
    key text PRIMARY KEY,  -- the name of its table in the archive
    stream text NOT NULL,
    definition jsonb NOT NULL,
    bytes bigint NOT NULL DEFAULT 0,
    chunks bigint NOT NULL DEFAULT 0,  -- summarised so far, each time that it changed
    rows bigint NOT NULL DEFAULT 0,  -- of these chunks
    groups bigint NOT NULL DEFAULT 0,  -- rows of their summaries
    asked bigint NOT NULL DEFAULT 0,  -- chunks of ranges that recalls have asked it for
    build_seconds double precision NOT NULL DEFAULT 0,  -- a chunk
    read_seconds double precision NOT NULL DEFAULT 0,  -- a chunk, by a recall, without summary
    lookup_seconds double precision NOT NULL DEFAULT 0,  -- a chunk, by a recall
    loss text,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Bytes on disk by kind, as measured last: `columns` and `place` by stream and chunk; `summaries`, `log` and
-- `superseded` by stream; `derived`, `events`, `contexts`, `revisions`, `indexes` and `database` in all.
CREATE TABLE stored_bytes (
    kind text NOT NULL,
    stream text NOT NULL DEFAULT '',
    chunk integer NOT NULL DEFAULT -1,
    bytes bigint NOT NULL,
    measured_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (kind, stream, chunk)
);

-- Streams whose files are rewritten for changed columns; their input waits. A row is deleted when
-- the rewritten files are committed.
CREATE TABLE column_rewrites (
    stream       text PRIMARY KEY,
    -- The columns that change their name or type.
    columns      text[] NOT NULL,
    -- failing: tried again at intervals. refused: an archived value would change.
    state        text NOT NULL CHECK (state IN ('checking', 'rewriting', 'failing', 'refused')),
    steps_done   integer NOT NULL,
    steps        integer NOT NULL,
    -- About what the files take that are not written yet.
    bytes_needed bigint NOT NULL,
    -- Of the last failure; NULL: there was none.
    reason       text,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Data files of the archive that the live process has seen, which reads each again from time to time.
CREATE TABLE file_checks (
    -- The folder of the table below the root of the archive, and the path in it.
    table_name text NOT NULL,
    path       text NOT NULL,
    -- SHA-256, of files whose commit does not hold it: as when the file was first read. NULL: it does.
    digest     text,
    -- When it was last read; before the first time: when it was first seen.
    checked_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- NULL: it was as expected.
    problem    text,
    PRIMARY KEY (table_name, path)
);
CREATE INDEX file_checks_problems ON file_checks (table_name) WHERE problem IS NOT NULL;

-- The ingest ledger: one row per source unit: a file, a pushed batch, or a range of a Kafka
-- partition.
-- The counters are replaced when the unit is read again after a crash, not added to.
CREATE TABLE units (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream      text NOT NULL,
    -- The name of the unit. Empty: the row into which old units of the stream were compacted.
    unit        text NOT NULL,
    -- Whether all records of the unit are archived.
    done        boolean NOT NULL DEFAULT false,
    -- The newest event time of its rows; NULL without rows.
    newest      timestamptz,
    -- Records read. Each is also counted in exactly one of: archived, duplicates, malformed,
    -- quarantined, conflicts, expired.
    read        bigint NOT NULL DEFAULT 0,
    archived    bigint NOT NULL DEFAULT 0,
    -- Archived rows that were late.
    late        bigint NOT NULL DEFAULT 0,
    duplicates  bigint NOT NULL DEFAULT 0,
    malformed   bigint NOT NULL DEFAULT 0,
    quarantined bigint NOT NULL DEFAULT 0,
    conflicts   bigint NOT NULL DEFAULT 0,
    -- Records older than the retention period.
    expired     bigint NOT NULL DEFAULT 0,
    -- Archived rows that were deleted with their chunk when it expired.
    forgotten   bigint NOT NULL DEFAULT 0,
    done_at     timestamptz,
    -- Dead letters that were deleted by age.
    dropped     bigint NOT NULL DEFAULT 0,
    -- Of the row with an empty name: the number of units compacted into it.
    folded      bigint NOT NULL DEFAULT 0,
    -- The header of CSV lines, to retry dead letters; NULL: other formats.
    fields      text[],
    -- The clock at which the unit was first read, recorded before its first row is archived. Rows
    -- after it are ahead of the clock. NULL: read by a version without this column.
    clock       timestamptz,
    -- Late rows that would be on time, had the watermark not followed rows ahead of the clock.
    late_by_ahead bigint NOT NULL DEFAULT 0,
    -- The partition of a range of Kafka records; NULL: other units.
    partition   text,
    -- Kafka records without a value: no rows, and not counted in `read`.
    tombstones  bigint NOT NULL DEFAULT 0,
    -- Records that close event time: no rows, and not counted in `read`.
    punctuations bigint NOT NULL DEFAULT 0,
    -- The format of the records, to retry dead letters; NULL: JSON lines, or CSV with `fields`.
    format      jsonb,
    -- Of a file: its size in bytes and its modification time in microseconds when it was last read,
    -- NULL: read by a version that did not record them; and how often it was read. Readings after
    -- the first are units of their own, `NAME#2`.
    size        bigint,
    modified    bigint,
    readings    integer NOT NULL DEFAULT 1,
    -- Of a file whose rows are identified by their place: the name in their identities; and
    -- INODE:SIZE:HASH, the hash of its beginning, by which it is found again when it was renamed.
    place       text,
    stamp       text,
    -- Archived rows that were erased; of the duplicates, those that repeat an erased row.
    erased       bigint NOT NULL DEFAULT 0,
    erased_again bigint NOT NULL DEFAULT 0,
    UNIQUE (stream, unit)
);
CREATE INDEX units_of_partition ON units (stream, partition) WHERE NOT done AND partition IS NOT NULL;
CREATE INDEX units_unfinished ON units (stream) WHERE NOT done;
CREATE INDEX units_by_inode ON units (stream, split_part(stamp, ':', 1)) WHERE stamp IS NOT NULL;

-- What was erased on request. `listed`: a restored backup is to be searched for it. `purging`: nothing of it can be read any more, and files, pages and logs
-- that had it are being removed.
CREATE TABLE erasures (
    id             uuid PRIMARY KEY,
    author         text NOT NULL,
    -- Keyed hash of the condition, see `workspace.erasure_key`.
    condition_hash bytea NOT NULL,
    streams        text[] NOT NULL,
    rows           bigint NOT NULL DEFAULT 0,
    state          text NOT NULL DEFAULT 'erasing' CHECK (state IN ('listed', 'erasing', 'purging', 'done')),
    -- Event times between which the rows were, to the hour; NULL: there were none.
    first_ts       timestamptz,
    last_ts        timestamptz,
    -- How much was erased where: numbers by place; and what may still have it.
    effects        jsonb NOT NULL DEFAULT '{}',
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- NULL: it is not finished, and `moirae archive erase --continue` goes on.
    finished_at    timestamptz
);

-- The erased rows: who delivers one again brings a duplicate. Nothing of them is here but a keyed hash
-- of their identity, and the hour of their event time, as hours since 1970. `unit`: 0: of another
-- program.
CREATE TABLE erased_rows (
    stream  text NOT NULL,
    hash    bytea NOT NULL,
    unit    bigint NOT NULL,
    line    bigint NOT NULL,
    hour    bigint NOT NULL,
    erasure uuid NOT NULL REFERENCES erasures (id) ON DELETE CASCADE,
    PRIMARY KEY (stream, hash, unit, line)
);

-- Values, and events, that an erasure is to remove everywhere. Empty as soon as it has.
CREATE TABLE erased_values (
    erasure uuid NOT NULL REFERENCES erasures (id) ON DELETE CASCADE,
    value   text NOT NULL,
    PRIMARY KEY (erasure, value)
);
CREATE TABLE erased_events (
    erasure uuid NOT NULL REFERENCES erasures (id) ON DELETE CASCADE,
    eid     uuid NOT NULL,
    PRIMARY KEY (erasure, eid)
);

-- Archived rows that were lost with their data file and that nothing has any more; kept for good. The
-- ledger counts them as deleted.
CREATE TABLE lost_rows (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream     text NOT NULL,
    -- The source unit.
    unit       text NOT NULL,
    rows       bigint NOT NULL,
    -- Event times between which they are; NULL: not known.
    first_ts   timestamptz,
    last_ts    timestamptz,
    -- Their identities, as far as they are known.
    ids        text[] NOT NULL,
    noticed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Records that were read and not archived.
CREATE TABLE dead_letters (
    unit_id  bigint NOT NULL REFERENCES units (id) ON DELETE CASCADE,
    line     bigint NOT NULL,
    reason   text NOT NULL CHECK (reason IN ('malformed', 'quarantined', 'conflict', 'expired')),
    detail   text NOT NULL,
    raw      bytea NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Marked for retry by the live process.
    retry    boolean NOT NULL DEFAULT false,
    PRIMARY KEY (unit_id, line)
);
CREATE INDEX dead_letters_by_time ON dead_letters (at);
CREATE INDEX dead_letters_to_retry ON dead_letters (unit_id, line) WHERE retry;

-- The Kafka topics that streams read or have read. A topic that was deleted and made again is another
-- one, with another id.
CREATE TABLE topics (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream   text NOT NULL,
    -- Counts the topics of the stream. From 2 on it is part of the names of source units.
    number   integer NOT NULL,
    -- Of the topic; NULL: read by a version that did not store it.
    name     text,
    -- The id that the brokers gave the topic; of brokers without such ids, cluster and name. NULL:
    -- read by a version that did not store it, and not seen since.
    topic_id text,
    -- The servers by which it was read, as declared, and the id of their cluster; NULL: not known.
    servers  text,
    cluster  text,
    -- Whether the stream reads it.
    current  boolean NOT NULL,
    since    timestamptz NOT NULL DEFAULT clock_timestamp(),
    UNIQUE (stream, number)
);
CREATE UNIQUE INDEX topics_current ON topics (stream) WHERE current;

-- How far each partition of a topic has been read. `next`: the offset of its next record; the event
-- times as in `streams`, all NULL: no record was read yet.
CREATE TABLE partitions (
    partition        text NOT NULL,
    next             bigint NOT NULL,
    newest           timestamptz,
    advanced         timestamptz,
    newest_not_ahead timestamptz,
    advanced_ahead   timestamptz,
    topic            bigint NOT NULL REFERENCES topics (id) ON DELETE CASCADE,
    -- The offset after its last record, as last seen while records were unread; NULL: never so.
    end_offset       bigint,
    PRIMARY KEY (topic, partition)
);

-- Records of topics that were lost before they were read; kept for good.
CREATE TABLE lost_records (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream          text NOT NULL,
    -- The name of the topic.
    topic           text NOT NULL,
    partition       text NOT NULL,
    first_offset    bigint NOT NULL,
    -- NULL: it is not known how many there were.
    last_offset     bigint,
    -- Deleted from the topic, as by its retention; deleted with a topic that was made again; or the
    -- partition ended before the offset to which it was read. Of a growing file, in bytes: removed.
    reason          text NOT NULL
        CHECK (reason IN ('deleted', 'recreated', 'truncated', 'removed')),
    noticed_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When an operator acknowledged the loss; NULL: not yet.
    acknowledged_at timestamptz
);
CREATE INDEX lost_records_open ON lost_records (stream) WHERE acknowledged_at IS NULL;

-- Files that grow: read in ranges of bytes, as the partitions of a topic are.
CREATE TABLE growing_files (
    number         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream         text NOT NULL,
    -- The name of the file when it was first seen: part of the names of its units.
    name           text NOT NULL,
    -- Where it was last seen.
    path           text NOT NULL,
    device         numeric NOT NULL,
    inode          numeric NOT NULL,
    -- The hash of its first bytes, and how many these are.
    head_length    bigint NOT NULL,
    head_hash      bytea NOT NULL,
    -- The hash of the last bytes before an offset to which it was read.
    checked_to     bigint NOT NULL,
    checked_hash   bytea NOT NULL
);
CREATE INDEX growing_files_stream ON growing_files (stream);

-- Streams whose topic cannot be read now: its brokers are away, it does not exist, or another reason.
CREATE TABLE source_errors (
    stream text PRIMARY KEY,
    kind   text NOT NULL CHECK (kind IN ('away', 'missing', 'failed')),
    error  text NOT NULL,
    since  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Records that protocols brought and that are no rows, by reason. `stream`: empty for records that no
-- stream takes.
CREATE TABLE skipped_records (
    stream  text NOT NULL,
    reason  text NOT NULL,
    records bigint NOT NULL,
    PRIMARY KEY (stream, reason)
);

-- Idempotency keys of pushed batches. `digest`: SHA-256 of the content; the same key with other
-- content is refused.
CREATE TABLE pushes (
    stream text NOT NULL,
    key    text NOT NULL,
    digest bytea NOT NULL,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (stream, key)
);
CREATE INDEX pushes_by_time ON pushes (at);

-- The chunks: intervals [from_ts, to_ts) of event time that partition the archive without gap or
-- overlap. `from_ts` NULL: the oldest chunk. `to_ts` NULL: the newest chunk, which has no end yet.
CREATE TABLE chunks (
    id         integer PRIMARY KEY,
    from_ts    timestamptz,
    to_ts      timestamptz,
    state      text NOT NULL CHECK (state IN ('present', 'recent', 'old', 'expired')),
    closed_at  timestamptz,
    expired_at timestamptz,
    -- How many times late rows were appended to the chunk, and when last.
    version    bigint NOT NULL DEFAULT 0,
    late_at    timestamptz,
    UNIQUE NULLS NOT DISTINCT (from_ts),
    UNIQUE NULLS NOT DISTINCT (to_ts),
    CHECK (from_ts < to_ts)
);

-- Maintenance tasks completed for a chunk (see `archiver.chunks.lifecycle`). `version`: the version
-- of the chunk at which the task ran.
CREATE TABLE preparations (
    chunk   integer NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
    name    text NOT NULL,
    version bigint NOT NULL,
    done_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chunk, name)
);

-- Maintenance tasks that failed at their last try: the chunk stays as it is.
CREATE TABLE maintenance_errors (
    chunk     integer NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
    task      text NOT NULL,
    error     text NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chunk, task)
);

-- Versions of the rows of relations. A version is valid from an event time to that of the next
-- version with the same key.
CREATE TABLE relation_versions (
    relation   text NOT NULL,
    key        jsonb NOT NULL,
    valid_from timestamptz NOT NULL,
    -- NULL: the row was removed from its source.
    row        jsonb,
    -- When the version was read.
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (relation, key, valid_from)
);

-- The columns and keys with which the rows of relations are stored. `columns`: pairs of name and
-- type, in order.
CREATE TABLE relation_declarations (
    relation text PRIMARY KEY,
    columns  jsonb NOT NULL,
    key      text[] NOT NULL
);

-- Relations whose source cannot be read. `at`: since when the error is the same.
CREATE TABLE relation_errors (
    relation text PRIMARY KEY,
    error    text NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- What breaks its reader: it is tried again until it is set aside, then when it changes or on request.
CREATE TABLE set_aside (
    kind            text NOT NULL CHECK (kind IN ('file', 'stream', 'relation', 'rule', 'topic')),
    -- The stream of a file; empty for the other kinds.
    stream          text NOT NULL,
    name            text NOT NULL,
    reason          text NOT NULL,
    -- Differs once what could not be read has changed.
    fingerprint     text NOT NULL,
    tries           integer NOT NULL,
    first_failed_at timestamptz NOT NULL,
    last_failed_at  timestamptz NOT NULL,
    -- NULL: it is still tried.
    set_aside_at    timestamptz,
    retry_requested boolean NOT NULL DEFAULT false,
    PRIMARY KEY (kind, stream, name)
);

-- The oldest input of each stream that was not archived when the live process last looked.
CREATE TABLE unread_input (
    stream     text PRIMARY KEY,
    -- When it arrived; NULL: everything was archived.
    oldest_at  timestamptz,
    checked_at timestamptz NOT NULL
);

-- The version of each relation that is in use. `fingerprint`: identifies it in its source.
CREATE TABLE relation_sources (
    relation    text PRIMARY KEY,
    fingerprint text NOT NULL,
    rows        bigint NOT NULL,
    read_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Versions of relations that are held back, as they have far fewer rows than those in use.
CREATE TABLE held_relations (
    relation    text PRIMARY KEY,
    fingerprint text NOT NULL,
    rows        bigint NOT NULL,
    rows_in_use bigint NOT NULL,
    held_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Whether it shall be used all the same.
    accepted    boolean NOT NULL DEFAULT false
);

-- The desired rules, as applied; `deployments` holds their running versions.
CREATE TABLE rules (
    rule       text PRIMARY KEY,
    version    text NOT NULL,
    -- All that is needed to run the rule, see `moirae.rules.definition`.
    definition jsonb NOT NULL,
    applied_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- Raised with each change of `rules`: one row.
CREATE TABLE rules_revision (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    revision bigint NOT NULL
);
INSERT INTO rules_revision VALUES (true, 0);
-- The rule files of the workspace, as last loaded by a running workspace: one row.
CREATE TABLE rule_files (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Number of requests to reload the files, and up to which of them the files were reloaded.
    asked     bigint NOT NULL DEFAULT 0,
    answered  bigint NOT NULL DEFAULT 0,
    -- A hash of their names and contents; NULL: never loaded.
    digest    text,
    looked_at timestamptz,
    -- Why the files were rejected, one text per problem; NULL: they are applied.
    problems  jsonb,
    -- The hash of files that are being checked, and how many attempts to check them have started.
    -- An attempt that crashed its process is thereby counted.
    checking  text,
    tries     integer NOT NULL DEFAULT 0,
    -- Of `rules_revision`, when these files were applied; NULL: they are not, or have changed meanwhile.
    revision  bigint
);
INSERT INTO rule_files VALUES (true);
-- Versions of rules that run or have run.
CREATE TABLE deployments (
    rule        text NOT NULL,
    version     text NOT NULL,
    -- Events before this event time are settled. NULL: none is.
    settled_to  timestamptz,
    state       text NOT NULL CHECK (state IN ('running', 'quarantined', 'stopped')),
    failures    integer NOT NULL DEFAULT 0,
    error       text,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The live process has evaluated the version from this event time on (NULL: from the beginning),
    -- and decides from `corpus_from` on which events are in the corpus. Views cover the time before.
    live_from   timestamptz,
    corpus_from timestamptz,
    -- Quarantined because it failed the admission checks, not because of errors at run time.
    refused     boolean NOT NULL DEFAULT false,
    -- When it was stopped; NULL: it is not, or was stopped by a version without this column.
    stopped_at  timestamptz,
    -- Since when it is in quarantine because it lost too many verdicts; one row in 100 is still
    -- evaluated. NULL: it is not.
    losing_since timestamptz,
    PRIMARY KEY (rule, version)
);

-- Rule history: a view is the result of evaluating a rule version over a chunk for the time before
-- the version ran, namely events with their alerts, contexts and corpus.
CREATE TABLE views (
    rule     text NOT NULL,
    version  text NOT NULL,
    chunk    integer NOT NULL,
    -- The view is complete before this event time; NULL: it was only started.
    upto     timestamptz,
    -- Number of events, and of those in the corpus.
    events   bigint NOT NULL DEFAULT 0,
    corpus   bigint NOT NULL DEFAULT 0,
    -- Whether it was last computed because a recall requested it, not in the background.
    asked    boolean NOT NULL DEFAULT false,
    -- Number of attempts since the last success, and the error of the last one.
    tries    integer NOT NULL DEFAULT 0,
    error    text,
    seconds  double precision NOT NULL DEFAULT 0,
    done_at  timestamptz,
    PRIMARY KEY (rule, version, chunk)
);

-- Archived chunks of derived streams. `version`: a hash of the SQL of the stream.
CREATE TABLE derived_chunks (
    stream   text NOT NULL,
    version  text NOT NULL,
    chunk    integer NOT NULL,
    rows     bigint,
    -- Number of attempts since the last success, and the error of the last one.
    tries    integer NOT NULL DEFAULT 0,
    error    text,
    seconds  double precision,
    -- When the chunk was archived; NULL: not yet.
    done_at  timestamptz,
    PRIMARY KEY (stream, version, chunk)
);

-- Errors of rules: failures, statements or processes stopped because of them, floods of events.
CREATE TABLE rule_errors (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule     text NOT NULL,
    version  text NOT NULL,
    kind     text NOT NULL CHECK (kind IN ('error', 'time', 'memory', 'flood', 'lost')),
    message  text NOT NULL,
    -- The row at which the rule fails, if one was found.
    event    jsonb,
    -- Number of occurrences; of a flood: number of dropped events.
    times    bigint NOT NULL,
    first_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    last_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE UNIQUE INDEX rule_errors_once
    ON rule_errors (rule, version, kind, md5(message || coalesce(event::text, '')));

-- Rows that the rule index evaluated with a rule, those that matched, and the time that the evaluation
-- of the rule took if it is noticeable, in ten minutes each.
CREATE TABLE rule_candidates (
    rule       text NOT NULL,
    since      timestamptz NOT NULL,
    candidates bigint NOT NULL,
    matches    bigint NOT NULL,
    seconds    double precision NOT NULL DEFAULT 0,
    PRIMARY KEY (rule, since)
);

-- What streams, rules, contexts, recalls and revision streams have processed, in half a minute each; kept
-- for some minutes. `name`: of a stream or rule, else `RULE/NAME`.
CREATE TABLE flows (
    kind    text NOT NULL CHECK (kind IN ('stream', 'rule', 'context', 'recall', 'revisions')),
    name    text NOT NULL,
    since   timestamptz NOT NULL,
    -- Of a stream: rows archived; of a rule: settled events; of a context: its rows; of a recall: rows
    -- of its partial answers; of a revision stream: revisions.
    rows    bigint NOT NULL DEFAULT 0,
    -- Of a recall: rows that were new to its answers.
    results bigint NOT NULL DEFAULT 0,
    -- Of rules, contexts and recalls: the time that they took.
    seconds double precision NOT NULL DEFAULT 0,
    -- Memory at the end: of a stream, its recent rows; of a rule, its panes.
    bytes   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, name, since)
);

-- Rows over which a version of a rule has no verdict: it exceeded its limit for them.
CREATE TABLE lost_verdicts (
    rule     text NOT NULL,
    version  text NOT NULL,
    stream   text NOT NULL,
    -- The event time of the row, and a hash of its values.
    ts       timestamptz NOT NULL,
    row_hash text NOT NULL,
    -- The row as JSON; long texts are shortened.
    row      jsonb NOT NULL,
    reason   text NOT NULL,
    lost_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (rule, version, stream, ts, row_hash)
);

-- Back-tests that clients of the server have started. A child of a recall process runs them.
CREATE TABLE backtests (
    id               uuid PRIMARY KEY,
    author           text NOT NULL,
    -- Rule files, those before, and the span of event time.
    request          jsonb NOT NULL,
    state            text NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled')),
    -- 0 to 1: of the event time that is evaluated.
    progress         double precision NOT NULL DEFAULT 0,
    -- The rules that are evaluated, in whole or newest first up to now.
    result           jsonb,
    error            text,
    cancel_requested boolean NOT NULL DEFAULT false,
    -- How often it was started: what ends its process every time is given up.
    attempts         integer NOT NULL DEFAULT 0,
    requested_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at       timestamptz,
    -- The last sign of life of the process that runs it.
    seen_at          timestamptz,
    ended_at         timestamptz
);
CREATE INDEX ON backtests (requested_at);

-- Events of rules. A detected event is settled once the watermarks have passed all rows that it
-- depends on.
CREATE TABLE events (
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
    -- Found in history by a view.
    past        boolean NOT NULL DEFAULT false,
    PRIMARY KEY (rule, version, eid)
);
CREATE INDEX events_by_time ON events (ts DESC, eid);
CREATE INDEX events_by_eid ON events (eid);
CREATE INDEX events_unsettled ON events (rule, fingerprint) WHERE NOT settled;
CREATE INDEX events_of_alert ON events (rule, fingerprint, ts);
CREATE INDEX events_by_seq ON events (seq) WHERE settled;

CREATE TABLE alerts (
    id          uuid PRIMARY KEY,
    -- The first event of the alert.
    eid         uuid NOT NULL,
    rule        text NOT NULL,
    version     text NOT NULL,
    fingerprint text NOT NULL,
    key         jsonb NOT NULL,
    labels      jsonb NOT NULL,
    annotations jsonb NOT NULL,
    state       text NOT NULL
        CHECK (state IN ('pending', 'firing', 'resolved', 'provisional', 'withdrawn')),
    -- Event times of the first event, of the event at which it fired, of the last event, of the end.
    starts_at   timestamptz NOT NULL,
    fired_at    timestamptz,
    last_at     timestamptz NOT NULL,
    ends_at     timestamptz,
    -- Number of events.
    events      bigint NOT NULL,
    -- The same fields computed from settled events only; NULL: none is settled.
    settled     jsonb,
    -- The result of the rule's `where` about the first event; NULL: the rule has none.
    history     text CHECK (history IN ('waiting', 'kept', 'withdrawn', 'no_history')),
    -- Whether it is the result after the last revision.
    history_final boolean NOT NULL DEFAULT false,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When it was first stored as firing, provisional or settled.
    raised_at   timestamptz,
    updated_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Found in history by a view: it is not notified.
    past        boolean NOT NULL DEFAULT false,
    -- Of a drain: it is not notified, either.
    quiet       boolean NOT NULL DEFAULT coalesce(current_setting('moirae.notify', true), '') = 'off',
    -- Why it ended: its condition is false, or its data vanished; NULL: not known.
    end_reason  text CHECK (end_reason IN ('ended', 'no_data'))
);
CREATE INDEX alerts_open ON alerts (rule, fingerprint) WHERE ends_at IS NULL;
CREATE INDEX alerts_by_start ON alerts (starts_at DESC, id);
CREATE INDEX alerts_by_eid ON alerts (eid);
CREATE INDEX alerts_by_fingerprint ON alerts (rule, version, fingerprint);
CREATE INDEX alerts_by_update ON alerts (rule, updated_at);

-- Alerts that other systems post. The rule of each name of an alert, decided when it was first seen.
CREATE TABLE external_rules (
    alertname text PRIMARY KEY,
    rule      text NOT NULL,
    first_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
-- The newest post of each posted alert.
CREATE TABLE external_alerts (
    alert_id    uuid PRIMARY KEY REFERENCES alerts (id) ON DELETE CASCADE,
    fingerprint text NOT NULL,
    posted_at   timestamptz NOT NULL,
    -- For each start that was posted, in microseconds, until when it fires: several servers may post
    -- the same alert, each with a start of its own.
    ends        jsonb NOT NULL,
    -- The latest of these ends; NULL: the alert has ended.
    open_until  bigint
);
CREATE INDEX external_alerts_open ON external_alerts (open_until) WHERE open_until IS NOT NULL;
-- The event time up to which posts are read: one row.
CREATE TABLE external_progress (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    read_to timestamptz
);
INSERT INTO external_progress VALUES (true);

-- Links of messages that act once: for one alert, one action, until a time.
CREATE TABLE action_links (
    -- SHA-256 of the code, which is in the message only.
    digest     bytea PRIMARY KEY,
    alert_id   uuid NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    action     text NOT NULL CHECK (action IN ('acknowledge', 'silence')),
    receiver   text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    revoked_at timestamptz
);
CREATE INDEX action_links_by_alert ON action_links (alert_id);
CREATE INDEX action_links_by_end ON action_links (expires_at);

-- The changes of `history` of alerts, with the reasons.
CREATE TABLE alert_history (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    alert_id uuid NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    -- The first event of the alert at that time.
    eid      uuid NOT NULL,
    history  text NOT NULL CHECK (history IN ('waiting', 'kept', 'withdrawn', 'no_history')),
    final    boolean NOT NULL,
    reason   text NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX alert_history_by_alert ON alert_history (alert_id, id);

-- Acknowledgements, notes, resolutions and assignments of alerts.
CREATE TABLE alert_notes (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    alert_id uuid NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    -- proposal: a resolution by an agent, which counts when a person confirms it.
    kind     text NOT NULL CHECK (kind IN ('ack', 'note', 'resolution', 'assign', 'checked', 'proposal')),
    author   text NOT NULL,
    text     text NOT NULL,
    tag      text,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Of an assignment: who is responsible for the alert.
    assignee text,
    -- Of a checked step, whose text is what was done: what it showed, and what follows for the suspicion.
    result   text,
    outcome  text CHECK (outcome IN ('ruled out', 'confirmed', 'open')),
    -- Of a resolution that is no fix: what it says of the remedy that its tag names; and the tag of what is done
    -- instead of a superseded one.
    effect   text CHECK (effect IN ('no action needed', 'did not help', 'superseded')),
    superseded_by text,
    -- The address of a post-mortem or ticket.
    link     text,
    -- The tag as it was recorded, if it has another name since.
    recorded_tag text,
    -- The tag that recalls learn from; NULL: none.
    remedy   text GENERATED ALWAYS AS (CASE effect WHEN 'did not help' THEN NULL WHEN 'superseded' THEN superseded_by
        WHEN 'no action needed' THEN coalesce(tag, effect) ELSE tag END) STORED
);
CREATE INDEX alert_notes_by_alert ON alert_notes (alert_id);
CREATE INDEX alert_notes_by_tag ON alert_notes (tag) WHERE tag IS NOT NULL;

-- What resolved each alert, by its last resolution with a tag or an effect. `tag`: NULL if nothing is known to help.
CREATE VIEW remedies AS
SELECT DISTINCT ON (alert_id) alert_id, id, remedy AS tag, tag AS tried, effect, superseded_by, at FROM alert_notes
WHERE kind = 'resolution' AND (tag IS NOT NULL OR effect IS NOT NULL) ORDER BY alert_id, at DESC, id DESC;

-- Tags that have another name: a resolution that is recorded with the old one gets the new one.
CREATE TABLE tag_names (
    old_tag text PRIMARY KEY,
    tag     text NOT NULL,
    author  text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Incidents: alerts of one failure. `merged_into`: the incident that has its alerts now.
CREATE TABLE incidents (
    id          uuid PRIMARY KEY,
    state       text NOT NULL DEFAULT 'proposed' CHECK (state IN ('proposed', 'confirmed', 'merged')),
    merged_into uuid,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- In which incident each alert is. An incident of one alert is shown only if it is confirmed.
CREATE TABLE incident_alerts (
    alert_id  uuid PRIMARY KEY REFERENCES alerts (id) ON DELETE CASCADE,
    incident  uuid NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
    -- The order in which alerts were placed.
    number    bigint GENERATED ALWAYS AS IDENTITY,
    -- A keyed hash of rule and key: decisions are about alerts of two series.
    series    text NOT NULL,
    overlap   double precision NOT NULL,
    -- Why it is in this incident: a sentence, which may name values.
    reason    text NOT NULL,
    -- The changes before it in time and place that were compared.
    changes   text[] NOT NULL,
    placed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX incident_alerts_by_incident ON incident_alerts (incident);

-- In which incidents alerts were before people split or merged them.
CREATE TABLE incident_moves (
    alert_id uuid NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    incident uuid NOT NULL,
    until    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (alert_id, until)
);
CREATE INDEX incident_moves_by_incident ON incident_moves (incident);
CREATE FUNCTION note_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO incident_moves (alert_id, incident) VALUES (OLD.alert_id, OLD.incident);
    RETURN NULL;
END
$$;
CREATE TRIGGER alert_moved AFTER UPDATE OF incident ON incident_alerts FOR EACH ROW
    WHEN (OLD.incident <> NEW.incident) EXECUTE FUNCTION note_move();
-- In which incident an alert was at a time.
CREATE FUNCTION incident_at(alert uuid, moment timestamptz) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT m.incident FROM incident_moves m WHERE m.alert_id = alert AND m.until > moment ORDER BY m.until LIMIT 1),
        (SELECT m.incident FROM incident_alerts m WHERE m.alert_id = alert))
$$;

-- Alerts that fired and are not placed yet.
CREATE TABLE unplaced_alerts (
    alert_id uuid PRIMARY KEY REFERENCES alerts (id) ON DELETE CASCADE
);
CREATE FUNCTION queue_alert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO unplaced_alerts VALUES (NEW.id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER alert_fired AFTER INSERT ON alerts FOR EACH ROW WHEN (NEW.fired_at IS NOT NULL AND NOT NEW.past)
    EXECUTE FUNCTION queue_alert();
CREATE TRIGGER alert_fired_later AFTER UPDATE OF fired_at ON alerts FOR EACH ROW
    WHEN (OLD.fired_at IS NULL AND NEW.fired_at IS NOT NULL AND NOT NEW.past) EXECUTE FUNCTION queue_alert();

-- What people decided. Of a split, alerts of the series `series` were parted from those of `others`; of a merge, they
-- were put together. `other`: the incident that was split off, or that was merged into this one.
CREATE TABLE incident_decisions (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    incident uuid NOT NULL,
    kind     text NOT NULL CHECK (kind IN ('confirm', 'split', 'merge')),
    other    uuid,
    author   text NOT NULL,
    comment  text NOT NULL,
    series   text[] NOT NULL,
    others   text[] NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX incident_decisions_by_incident ON incident_decisions (incident);

-- Incidents by the alerts that fired and were not withdrawn. `ends_at`: NULL while one of them fires. `resolved`: how many
-- have a resolution, the last of them at `resolved_at`.
CREATE VIEW incident_spans AS
SELECT i.id, i.state, min(a.starts_at) AS starts_at, CASE WHEN bool_and(a.ends_at IS NOT NULL) THEN max(a.ends_at) END AS ends_at,
    count(*) AS alerts, count(*) FILTER (WHERE a.ends_at IS NULL) AS firing, count(r.at) AS resolved, max(r.at) AS resolved_at,
    array_agg(DISTINCT a.rule ORDER BY a.rule) AS rules
FROM incidents i JOIN incident_alerts m ON m.incident = i.id JOIN alerts a ON a.id = m.alert_id
CROSS JOIN LATERAL (SELECT max(n.at) AS at FROM alert_notes n WHERE n.alert_id = a.id AND n.kind = 'resolution') r
WHERE a.fired_at IS NOT NULL AND NOT a.past AND a.state <> 'withdrawn' AND a.history IS DISTINCT FROM 'withdrawn'
GROUP BY i.id;

-- Feedback on single hits: whether a past event helps with an event. A later judgement of the same person
-- replaces theirs.
CREATE TABLE judgements (
    eid      uuid NOT NULL,
    past_eid uuid NOT NULL,
    helps    boolean NOT NULL,
    author   text NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (eid, past_eid, author)
);
CREATE INDEX judgements_by_past ON judgements (past_eid);

-- Calibrations of similarity recalls: the probability of a match by score, learned from resolved
-- alerts. See `recall.similarity.calibration_model`.
CREATE TABLE calibrations (
    rule       text NOT NULL,
    version    text NOT NULL,
    recall     text NOT NULL,
    model      jsonb NOT NULL,
    learned_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (rule, version, recall)
);

-- Models of the measure `learned`, see `recall.learning`. `learned_until`: the time of the newest event that a model has
-- learned from, in microseconds; `resolutions`: from how many events; `arrays`: an archive of NumPy arrays.
CREATE TABLE learned_models (
    id            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule          text NOT NULL,
    version       text NOT NULL,
    recall        text NOT NULL,
    learned_until bigint NOT NULL,
    resolutions   integer NOT NULL,
    arrays        bytea NOT NULL,
    built_at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Of the arrays. Models of another format are not used.
    format        integer NOT NULL
);
CREATE INDEX learned_models_recall ON learned_models (rule, version, recall, id DESC);

-- The forecasts of the measure `learned` as they were shown last before a resolution was known. `shares`: by label, its
-- probability and its share by plain frequencies; see `recall.learning.resolution_forecast`.
CREATE TABLE shown_forecasts (
    rule     text NOT NULL,
    version  text NOT NULL,
    recall   text NOT NULL,
    eid      uuid NOT NULL,
    ts       timestamptz NOT NULL,
    shares   jsonb NOT NULL,
    shown_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (rule, version, recall, eid)
);
CREATE INDEX shown_forecasts_by_time ON shown_forecasts (rule, version, recall, ts DESC);

-- How the shown forecasts of recalls have held over the newest resolved episodes; see `recall.relevance.shown_forecasts`.
-- Figures are NULL without episodes. `excess`: of the log loss, compared with frequencies, with its 95 % interval.
-- `reason`: why frequencies are shown, since `worse_since`; NULL: they are not.
CREATE TABLE forecast_records (
    rule               text NOT NULL,
    version            text NOT NULL,
    recall             text NOT NULL,
    episodes           integer NOT NULL,
    withheld_share     double precision,
    log_loss           double precision,
    frequency_log_loss double precision,
    excess             double precision,
    excess_low         double precision,
    excess_high        double precision,
    reason             text,
    worse_since        timestamptz,
    checked_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (rule, version, recall)
);

-- Contexts and surroundings of the events of recalls: by name, a list of rows.
CREATE TABLE contexts (
    rule         text NOT NULL,
    version      text NOT NULL,
    eid          uuid NOT NULL,
    ts           timestamptz NOT NULL,
    contexts     jsonb NOT NULL,
    surroundings jsonb NOT NULL,
    -- All streams that the rule reads have passed the event: the contexts do not change any more.
    settled      boolean NOT NULL,
    -- The position of the event in the corpus, in the order in which events enter it; NULL: it is
    -- not in the corpus, or not yet.
    corpus       bigint,
    -- Computed by a view.
    past         boolean NOT NULL DEFAULT false,
    -- When it was last computed.
    at           timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Contexts and surroundings truncated at the row limit: by name, their number of rows before.
    -- NULL: none is truncated.
    cut          jsonb,
    PRIMARY KEY (rule, version, eid)
);
CREATE INDEX contexts_cut ON contexts (rule) WHERE cut IS NOT NULL;
CREATE SEQUENCE corpus_numbers;
CREATE UNIQUE INDEX contexts_by_number ON contexts (corpus);
CREATE INDEX contexts_open ON contexts (rule, ts) WHERE corpus IS NULL;
CREATE INDEX contexts_by_eid ON contexts (eid);
CREATE INDEX contexts_by_time ON contexts (ts);
-- The highest corpus number deleted from `contexts`, which is in the archive only: one row.
CREATE TABLE corpus_forgotten (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    number bigint NOT NULL
);
INSERT INTO corpus_forgotten VALUES (true, 0);

-- The recall ledger: one task per event and recall.
CREATE TABLE tasks (
    id            uuid PRIMARY KEY,
    eid           uuid NOT NULL,
    rule          text NOT NULL,
    version       text NOT NULL,
    recall        text NOT NULL,
    -- The question, and the event it is about; see `recall.requests`.
    request       jsonb NOT NULL,
    event         jsonb NOT NULL,
    state         text NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'running', 'suspended', 'done', 'finalized', 'cancelled', 'failed')),
    -- 0: an operator may be waiting for the answer; 1: background, the event was found in history.
    level         integer NOT NULL DEFAULT 0,
    -- The share of the task in stride scheduling.
    tickets       integer NOT NULL CHECK (tickets >= 1),
    -- Set at the first history query: the pieces of history to read, as (chunk, low, high) with the
    -- range [low, high) in microseconds, in the order of reading; and the corpus number up to which
    -- events count.
    pieces        jsonb,
    corpus        bigint,
    -- Set with them: the model that a comparison by `learned` uses; NULL: none, it ranks as `attributes`.
    model         bigint,
    -- Number of pieces processed; of these, those that failed, and those that a summary ruled out
    -- (always the first ones).
    next          integer NOT NULL DEFAULT 0,
    failed        integer NOT NULL DEFAULT 0,
    skipped       integer NOT NULL DEFAULT 0,
    -- The partial answer; NULL once the task has ended.
    held          bytea,
    revision      integer NOT NULL DEFAULT 0,
    -- Rows of partial answers read, or past events compared; those that were new to the answer;
    -- seconds of queries.
    rows          bigint NOT NULL DEFAULT 0,
    results       bigint NOT NULL DEFAULT 0,
    seconds       double precision NOT NULL DEFAULT 0,
    error         text,
    -- How many times a query for the next piece has failed: its process crashed, or it exceeded the
    -- time limit; `timeouts`: of these, the latter.
    tries         integer NOT NULL DEFAULT 0,
    -- Ended because it needs too much memory or time.
    exceeded      boolean NOT NULL DEFAULT false,
    -- The process that runs the task, until when it must renew its lease, and how many times the
    -- task was claimed. Results of an earlier claim are discarded.
    lease         bigint,
    lease_until   timestamptz,
    fence         bigint NOT NULL DEFAULT 0,
    created_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at    timestamptz,
    -- When the last feedback was given, or the task was started.
    unasked_since timestamptz,
    -- Of a suspended task: until when it waits for feedback.
    deadline      timestamptz,
    -- When it had its first answer.
    first_at      timestamptz,
    ended_at      timestamptz,
    -- Since when a query of the task runs: if its process crashes, `tries` is raised.
    asked_at      timestamptz,
    -- The provenance of an SQL answer: for each query the first piece, the end of its pieces, and
    -- the number of appends to each stream that it saw; null: it returned nothing.
    seen          jsonb NOT NULL DEFAULT '[]',
    -- Of a query that follows (`moirae query --follow`): up to which append of each stream its
    -- answer includes the rows that were archived after history was read; NULL: none yet.
    live_appends  jsonb,
    -- When a turn was last recorded.
    progressed_at timestamptz,
    timeouts      integer NOT NULL DEFAULT 0,
    -- How many times the task was put off after queries for the next piece exceeded the time limit,
    -- and until when.
    put_offs      integer NOT NULL DEFAULT 0,
    retry_at      timestamptz,
    -- Seconds in which its queries waited for Spark to start, or for a busy machine.
    delayed       double precision NOT NULL DEFAULT 0,
    -- Set when what an ended task leaves is trimmed, see `recall.ledger.trimming`: how many pieces it
    -- had. `pieces` names whole chunks by their numbers then: (first, last) for a run of them.
    piece_count   integer
);
CREATE INDEX tasks_to_trim ON tasks (ended_at) WHERE ended_at IS NOT NULL AND piece_count IS NULL;
CREATE INDEX tasks_waiting ON tasks (level, rule, (revision > 0), created_at, id)
    WHERE state = 'waiting';
CREATE INDEX tasks_exceeding ON tasks (rule, version, recall, ended_at) WHERE exceeded;
CREATE INDEX tasks_at_work ON tasks (lease) WHERE state = 'running';
CREATE INDEX tasks_suspended ON tasks (deadline) WHERE state = 'suspended';
CREATE SEQUENCE leases;
CREATE INDEX tasks_similar ON tasks (rule, version, ((event->>'ts')::bigint))
    WHERE request->>'kind' = 'similar';
CREATE INDEX tasks_by_eid ON tasks (eid);
CREATE INDEX tasks_ended ON tasks (((event->>'ts')::bigint)) WHERE ended_at IS NOT NULL;
CREATE INDEX tasks_by_rule ON tasks (rule, version);

-- The leases whose sessions live.
CREATE VIEW live_leases AS
SELECT objid::bigint AS lease FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 2 AND granted
    AND classid = (hashtext('moirae leases')::bigint & 4294967295)::oid
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database());

-- Parts of corpora: what a corpus has of a chunk. See `recall.corpus_parts`.
CREATE TABLE corpus_parts (
    -- Rule, version and what is compared, as JSON.
    corpus      text NOT NULL,
    chunk       bigint NOT NULL,
    -- Memory that its holder needs for it.
    bytes       bigint NOT NULL,
    -- The recall process that holds it in memory, until when it must renew its lease, and its name.
    lease       bigint,
    lease_until timestamptz,
    holder      text,
    -- When a process last compared with the corpus.
    used_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (corpus, chunk)
);

-- Comparisons of a task's event with parts that another process holds, and its partial answers.
CREATE TABLE part_comparisons (
    task         uuid NOT NULL,
    -- Of the claim under which the task asks.
    fence        bigint NOT NULL,
    -- The lease of the process that is asked.
    holder       bigint NOT NULL,
    -- The spans of event time, in microseconds: (start, end).
    spans        jsonb NOT NULL,
    -- The corpus that is compared with: the highest number of its events, and how many are counted.
    max_sequence bigint NOT NULL,
    event_count  bigint NOT NULL,
    asked_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- The best events, and how many were compared; or why there is no answer.
    answer       bytea,
    compared     bigint,
    error        text,
    PRIMARY KEY (task, holder)
);
CREATE INDEX part_comparisons_open ON part_comparisons (holder, asked_at) WHERE answer IS NULL AND error IS NULL;

-- The chunks of the pieces of a task, in the order of reading.
CREATE OR REPLACE FUNCTION listed_chunks(pieces jsonb) RETURNS TABLE (chunk integer, place bigint) LANGUAGE sql IMMUTABLE AS $$
    SELECT r.chunk, row_number() OVER (ORDER BY p.place, r.number)
    FROM jsonb_array_elements(pieces) WITH ORDINALITY AS p (piece, place)
    CROSS JOIN LATERAL (SELECT (p.piece->>0)::integer AS first, CASE jsonb_array_length(p.piece)
        WHEN 2 THEN (p.piece->>1)::integer ELSE (p.piece->>0)::integer END AS last) e
    CROSS JOIN LATERAL generate_series(e.first, e.last, CASE WHEN e.last < e.first THEN -1 ELSE 1 END)
        WITH ORDINALITY AS r (chunk, number)
$$;

-- Number of chunks that a task has read and that received late rows since the task was started: its
-- answers may lack these rows.
CREATE OR REPLACE FUNCTION changed_since_read(task tasks) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT count(DISTINCT c.id) FROM listed_chunks(task.pieces) p JOIN chunks c ON c.id = p.chunk
    WHERE task.request->>'kind' = 'sql' AND p.place <= task.next AND c.late_at > task.started_at
$$;

-- The state of the context that an answer of a similarity recall, stored at a time, compared: settled or provisional.
-- NULL: the context was deleted.
CREATE OR REPLACE FUNCTION compared_context(task tasks, answered_at timestamptz) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN c.settled AND c.at <= answered_at THEN 'settled' ELSE 'provisional' END FROM contexts c
    WHERE c.rule = task.rule AND c.version = task.version AND c.eid = task.eid
$$;

-- The forecast of an answer as it is shown: by plain frequencies while the recall's forecasts are worse.
CREATE OR REPLACE FUNCTION shown_forecast(task tasks, forecast jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN r.reason IS NULL OR (forecast->>'withheld')::boolean THEN forecast - 'frequencies'
        ELSE (forecast - 'frequencies') || coalesce(nullif(forecast->'frequencies', 'null'), '{"tags": [], "new_tag": null}')
            || jsonb_build_object('by', 'frequencies', 'reason', r.reason) END
    FROM (SELECT) present LEFT JOIN forecast_records r
        ON r.rule = task.rule AND r.version = task.version AND r.recall = task.recall
$$;

-- The match probability of an answer as it is shown, of which `comparable` is stored.
CREATE OR REPLACE FUNCTION shown_comparable(task tasks, forecast jsonb, comparable double precision)
RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN comparable IS NULL THEN NULL
        WHEN s.forecast->>'by' = 'frequencies' THEN 1 - (s.forecast->>'new_tag')::double precision
        ELSE comparable END
    FROM (SELECT shown_forecast(task, forecast) AS forecast) s
$$;

-- Recalls that read `alerts`, until the alerts before their event are settled and it is known that they were read so.
CREATE TABLE unsettled_reads (task uuid PRIMARY KEY REFERENCES tasks (id) ON DELETE CASCADE);

-- Answers of a task, numbered without gaps. The last one of an ended task is its final answer.
CREATE TABLE revisions (
    task       uuid NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
    number     integer NOT NULL,
    final      boolean NOT NULL,
    -- What the answer was computed from, see `recall.requests.Coverage`.
    coverage   jsonb NOT NULL,
    answer     jsonb NOT NULL,
    at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- Of an SQL answer: for each row, by output column, the estimate for the full range of the
    -- question (value, low, high).
    estimates  jsonb,
    -- Of a final similarity answer: the probability that its best hit is of the same kind. NULL: too
    -- little was known, or the answer was stored by a version without this column.
    comparable double precision,
    -- Where that is from, with intervals: see `recall.similarity.calibration_model.MatchEstimate`. NULL: as `comparable`,
    -- or by the measure `learned`.
    match      jsonb,
    -- Of an answer by the measure `learned`: the most probable tags of the event's resolution, and the
    -- probability of none of these; `frequencies`: the same by plain frequencies.
    forecast   jsonb,
    PRIMARY KEY (task, number)
);

-- The revision streams: one for each recall and each stage of a rule.
CREATE TABLE revision_streams (
    id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule     text NOT NULL,
    -- The name of the recall or stage.
    name     text NOT NULL,
    -- The number of the last row revision, and of the last one in the archive.
    last_seq bigint NOT NULL DEFAULT 0,
    archived bigint NOT NULL DEFAULT 0,
    -- Up to which number the archive alone may have revisions, those of events with their boundary.
    trimmed_to bigint NOT NULL DEFAULT 0,
    UNIQUE (rule, name)
);

-- Row revisions: the rows of the answers of recalls and stages as they change. `seq` counts per
-- stream in the order of commits, without gaps: the row of the stream is locked until the commit.
CREATE TABLE row_revisions (
    stream  integer NOT NULL REFERENCES revision_streams (id) ON DELETE CASCADE,
    seq     bigint NOT NULL,
    -- The event that the row is about, the version of its rule, and its time.
    eid     uuid NOT NULL,
    version text NOT NULL,
    ts      timestamptz NOT NULL,
    -- `boundary`: no row revision of the event follows.
    op      text NOT NULL CHECK (op IN ('insert', 'update', 'delete', 'boundary')),
    -- Identifies the row among those of the event, as JSON; see `recall.revisions`. The new row, NULL
    -- for delete; the old row, NULL for insert.
    row_key text,
    row     jsonb,
    old_row jsonb,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (stream, seq)
);
CREATE INDEX row_revisions_by_event ON row_revisions (stream, eid, version, seq);
CREATE INDEX row_revisions_boundaries ON row_revisions (stream, seq) WHERE op = 'boundary';

-- The events that recalls are about.
CREATE TABLE recalled_events (
    rule        text NOT NULL,
    version     text NOT NULL,
    eid         uuid NOT NULL,
    ts          timestamptz NOT NULL,
    -- The event as in `tasks`, and what follows from its recalls: see `recall.event_plans`.
    event       jsonb NOT NULL,
    plan        jsonb NOT NULL,
    -- What the stages and the condition have been evaluated over, see `recall.stages`, and how many
    -- times.
    positions   jsonb NOT NULL DEFAULT '{}',
    evaluations bigint NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    evaluated_at timestamptz,
    -- Whether it ends because it had no progress.
    timed_out   boolean NOT NULL DEFAULT false,
    -- When its boundary was committed; NULL: there may be further revisions.
    ended_at    timestamptz,
    -- Whether something follows from its recalls. If so, `lease` is that of the only recall process
    -- that claims its tasks.
    has_stages  boolean NOT NULL GENERATED ALWAYS AS (
        jsonb_array_length(coalesce(plan->'stages', '[]')) > 0 OR plan->>'where' IS NOT NULL) STORED,
    lease       integer,
    PRIMARY KEY (rule, version, eid)
);
CREATE INDEX recalled_events_evaluated ON recalled_events (ts, eid) WHERE ended_at IS NULL AND has_stages;
CREATE INDEX recalled_events_by_time ON recalled_events (rule, ts);
CREATE INDEX recalled_events_open ON recalled_events (rule, ts) WHERE ended_at IS NULL;
CREATE INDEX recalled_events_by_eid ON recalled_events (eid);
CREATE INDEX recalled_events_ended ON recalled_events (ts) WHERE ended_at IS NOT NULL;

-- The stages (`then`) of events. Their rows are row revisions.
CREATE TABLE stages (
    rule       text NOT NULL,
    version    text NOT NULL,
    eid        uuid NOT NULL,
    name       text NOT NULL,
    state      text NOT NULL CHECK (state IN ('running', 'done', 'failed')),
    -- How many times its rows have changed.
    revision   integer NOT NULL DEFAULT 0,
    error      text,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (rule, version, eid, name),
    FOREIGN KEY (rule, version, eid) REFERENCES recalled_events ON DELETE CASCADE
);

-- Commands of operators on recalls. `target`: which recalls, see `recall.ledger.commands.Target`.
CREATE TABLE commands (
    id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    -- The idempotency key, chosen by the client.
    key     text NOT NULL UNIQUE,
    command text NOT NULL CHECK (command IN ('cancel', 'finalize', 'accelerate', 'refine')),
    target  jsonb NOT NULL,
    author  text NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    -- When it was executed, and what it changed; NULL: not yet.
    done_at timestamptz,
    effect  jsonb
);
CREATE INDEX commands_open ON commands (id) WHERE done_at IS NULL;

-- What changed, for live clients, in the order of (xid, id). A row is final once its transaction is
-- older than all that still run, so a reader who has passed it misses none. `key`: the alert, the
-- task of a recall or revision, or the event of a stage or boundary; `number`: of the revision.
-- `version`: of the rule, for the event; `name`: of the stage.
CREATE TABLE changes (
    xid    xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id     bigint GENERATED ALWAYS AS IDENTITY,
    kind   text NOT NULL CHECK (kind IN ('alert', 'recall', 'revision', 'stage', 'boundary')),
    key    uuid NOT NULL,
    number integer,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    version text,
    name   text,
    PRIMARY KEY (xid, id)
);
CREATE INDEX changes_by_time ON changes (at);

CREATE FUNCTION record_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'alerts' THEN
        INSERT INTO changes (kind, key) VALUES ('alert', NEW.id);
    ELSIF TG_TABLE_NAME = 'alert_notes' THEN
        INSERT INTO changes (kind, key) VALUES ('alert', NEW.alert_id);
    ELSIF TG_TABLE_NAME = 'tasks' THEN
        INSERT INTO changes (kind, key) VALUES ('recall', NEW.id);
    ELSIF TG_TABLE_NAME = 'stages' THEN
        INSERT INTO changes (kind, key, version, name) VALUES ('stage', NEW.eid, NEW.version, NEW.name);
    ELSIF TG_TABLE_NAME = 'recalled_events' THEN
        INSERT INTO changes (kind, key, version) VALUES ('boundary', NEW.eid, NEW.version);
    ELSE
        INSERT INTO changes (kind, key, number) VALUES ('revision', NEW.task, NEW.number);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER alert_inserted AFTER INSERT ON alerts FOR EACH ROW WHEN (NOT NEW.past)
    EXECUTE FUNCTION record_change();
CREATE TRIGGER alert_changed AFTER UPDATE ON alerts FOR EACH ROW
    WHEN (NOT NEW.past AND (OLD.state, OLD.history, OLD.eid, OLD.starts_at, OLD.fired_at, OLD.ends_at, OLD.labels, OLD.annotations)
        IS DISTINCT FROM (NEW.state, NEW.history, NEW.eid, NEW.starts_at, NEW.fired_at, NEW.ends_at, NEW.labels, NEW.annotations))
    EXECUTE FUNCTION record_change();
CREATE TRIGGER alert_noted AFTER INSERT ON alert_notes FOR EACH ROW EXECUTE FUNCTION record_change();
CREATE TRIGGER recall_inserted AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION record_change();
CREATE TRIGGER recall_changed AFTER UPDATE OF state ON tasks FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state AND NEW.state NOT IN ('waiting', 'running'))
    EXECUTE FUNCTION record_change();
CREATE TRIGGER revision_inserted AFTER INSERT ON revisions FOR EACH ROW EXECUTE FUNCTION record_change();
CREATE TRIGGER stage_changed AFTER INSERT OR UPDATE ON stages FOR EACH ROW EXECUTE FUNCTION record_change();
CREATE TRIGGER event_ended AFTER UPDATE OF ended_at ON recalled_events FOR EACH ROW
    WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION record_change();

-- Up to which change alerts are notified, and why the workspace file is not in force; NULL: it is. One row.
CREATE TABLE notify_state (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    xid       bigint,
    change    bigint,
    problems  jsonb,
    loaded_at timestamptz
);
INSERT INTO notify_state VALUES (true);

-- Groups of alerts. `id`: a hash of route and key. `due_at`: the next flush. `members`: alerts.
CREATE TABLE notify_groups (
    id          text PRIMARY KEY,
    route       text NOT NULL,
    key         text NOT NULL,
    labels      jsonb NOT NULL,
    due_at      timestamptz NOT NULL,
    has_flushed boolean NOT NULL,
    members     uuid[] NOT NULL
);

-- What receivers were told last about groups: members that fired and that had ended. `id`: a hash.
CREATE TABLE notify_log (
    id       text PRIMARY KEY,
    receiver text NOT NULL,
    key      text NOT NULL,
    firing   text[] NOT NULL,
    resolved text[] NOT NULL,
    at       timestamptz NOT NULL,
    -- When alerts that fired had begun, by their IDs.
    starts   jsonb NOT NULL DEFAULT '{}'
);

-- Alerts whose first message waits: until all input is read, or for the history of `where`.
CREATE TABLE notify_held (
    alert_id uuid PRIMARY KEY,
    reason   text NOT NULL CHECK (reason IN ('late', 'history')),
    since    timestamptz NOT NULL DEFAULT clock_timestamp()
);

-- Messages to receivers: the outbox and the log. `content`: what is rendered for the channel. `summary`: the message
-- in which a folded one is counted. `thread`: by which the receiver knows the message.
CREATE TABLE notifications (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    receiver    text NOT NULL,
    group_key   text NOT NULL,
    cause       text NOT NULL,
    status      text NOT NULL,
    content     jsonb NOT NULL,
    alert_count integer NOT NULL,
    state       text NOT NULL CHECK (state IN ('pending', 'folded', 'delivered', 'failed')),
    attempts    integer NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    error       text,
    summary     bigint REFERENCES notifications (id) ON DELETE SET NULL,
    thread      text
);
CREATE INDEX notifications_open ON notifications (id) WHERE state = 'pending';
CREATE INDEX notifications_folded ON notifications (receiver, id) WHERE state = 'folded' AND summary IS NULL;
CREATE INDEX notifications_by_time ON notifications (created_at);
CREATE INDEX notifications_by_receiver ON notifications (receiver, id);

-- The alerts that a message names.
CREATE TABLE notification_alerts (
    notification bigint NOT NULL REFERENCES notifications (id) ON DELETE CASCADE,
    alert_id     uuid NOT NULL,
    status       text NOT NULL CHECK (status IN ('firing', 'resolved')),
    PRIMARY KEY (notification, alert_id)
);
CREATE INDEX notification_alerts_by_alert ON notification_alerts (alert_id);

-- The last delivery to each receiver, since when deliveries fail, and since when its acknowledgements
-- cannot be read; NULL: they do not, they can.
CREATE TABLE receiver_states (
    receiver      text PRIMARY KEY,
    delivered_at  timestamptz,
    failing_since timestamptz,
    failures      integer NOT NULL DEFAULT 0,
    error         text,
    unread_since  timestamptz,
    unread_error  text,
    -- When the last test message was sent, and why it was not taken; NULL: it was.
    tested_at     timestamptz,
    test_error    text
);

-- Silences. `schedule`: cron, duration and zone of its windows; NULL: all of its time. `replaces`: the one that was edited.
CREATE TABLE silences (
    id         uuid PRIMARY KEY,
    matchers   jsonb NOT NULL,
    starts_at  timestamptz NOT NULL,
    ends_at    timestamptz NOT NULL,
    schedule   jsonb,
    author     text NOT NULL,
    comment    text NOT NULL,
    replaces   uuid,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX silences_by_end ON silences (ends_at);

-- Views for dashboards of other products. Migrations keep their columns.
CREATE SCHEMA IF NOT EXISTS dashboard;
CREATE VIEW dashboard.alerts AS
SELECT a.id, a.eid, a.rule, a.labels->>'alertname' AS alertname, a.labels->>'severity' AS severity,
    a.annotations->>'summary' AS summary, CASE WHEN a.history = 'withdrawn' THEN 'withdrawn' ELSE a.state END AS state,
    a.history, a.key, a.labels, a.annotations, a.starts_at, a.fired_at, a.last_at, a.ends_at, a.events,
    a.past, a.raised_at, a.updated_at,
    (SELECT n.author FROM alert_notes n WHERE n.alert_id = a.id AND n.kind = 'ack'
        ORDER BY n.at DESC, n.id DESC LIMIT 1) AS acknowledged_by,
    (SELECT n.assignee FROM alert_notes n WHERE n.alert_id = a.id AND n.kind = 'assign'
        ORDER BY n.at DESC, n.id DESC LIMIT 1) AS assigned_to,
    r.text AS resolution, r.tag
FROM alerts a
LEFT JOIN LATERAL (SELECT n.text, n.tag FROM alert_notes n WHERE n.alert_id = a.id AND n.kind = 'resolution'
    ORDER BY n.at DESC, n.id DESC LIMIT 1) r ON true;

CREATE VIEW dashboard.recalls AS
SELECT t.id, t.eid, t.rule, t.recall, t.request->>'kind' AS kind, t.state, t.created_at AS requested_at,
    t.first_at AS first_answer_at, t.ended_at, coalesce(t.piece_count, jsonb_array_length(t.pieces)) AS chunks,
    t.next AS chunks_read, t.failed AS chunks_failed, t.revision, t.tickets, t.seconds, t.error
FROM tasks t;

CREATE VIEW dashboard.similar_events AS
SELECT t.eid, t.rule, t.recall, (hit->>'rank')::integer AS rank, (hit->>'score')::float8 AS score,
    (hit->>'past_eid')::uuid AS past_eid, to_timestamp((hit->>'past_ts')::float8 / 1000000) AS past_ts,
    (SELECT string_agg(term->>0, ', ' ORDER BY place) FROM jsonb_array_elements(hit->'shared') WITH ORDINALITY AS s (term, place)
        WHERE place <= 5) AS reason,
    a.id AS past_alert, a.resolution, a.tag, to_timestamp((t.event->>'ts')::float8 / 1000000) AS ts
FROM tasks t
CROSS JOIN LATERAL (SELECT r.answer FROM revisions r WHERE r.task = t.id ORDER BY r.number DESC LIMIT 1) r
CROSS JOIN LATERAL jsonb_array_elements(r.answer) hit
LEFT JOIN LATERAL (SELECT p.id, p.resolution, p.tag FROM dashboard.alerts p WHERE p.eid = (hit->>'past_eid')::uuid
    ORDER BY p.starts_at DESC LIMIT 1) a ON true
WHERE t.request->>'kind' = 'similar';

CREATE VIEW dashboard.streams AS
SELECT s.name AS stream, s.newest, s.advanced AS advanced_to, u.read, u.archived, u.late, u.duplicates,
    u.malformed + u.quarantined + u.conflicts + u.expired AS dead_lettered, u.last_read_at
FROM streams s
LEFT JOIN LATERAL (SELECT sum(n.read)::bigint AS read, sum(n.archived)::bigint AS archived, sum(n.late)::bigint AS late,
        sum(n.duplicates)::bigint AS duplicates, sum(n.malformed)::bigint AS malformed,
        sum(n.quarantined)::bigint AS quarantined, sum(n.conflicts)::bigint AS conflicts,
        sum(n.expired)::bigint AS expired, max(n.done_at) AS last_read_at
    FROM units n WHERE n.stream = s.name) u ON true;

CREATE VIEW dashboard.chunks AS
SELECT c.id AS chunk, c.from_ts, c.to_ts, c.state, c.closed_at, c.expired_at, c.late_at FROM chunks c;
