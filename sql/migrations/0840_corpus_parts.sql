-- Parts of corpora by the recall process that holds them, and comparisons with them: see `sql/schema.sql`.
CREATE VIEW live_leases AS
SELECT objid::bigint AS lease FROM pg_locks
WHERE locktype = 'advisory' AND objsubid = 2 AND granted
    AND classid = (hashtext('moirae leases')::bigint & 4294967295)::oid
    AND database = (SELECT oid FROM pg_database WHERE datname = current_database());
CREATE TABLE corpus_parts (
    corpus      text NOT NULL,
    chunk       bigint NOT NULL,
    bytes       bigint NOT NULL,
    lease       bigint,
    lease_until timestamptz,
    holder      text,
    used_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (corpus, chunk)
);
CREATE TABLE part_comparisons (
    task         uuid NOT NULL,
    fence        bigint NOT NULL,
    holder       bigint NOT NULL,
    spans        jsonb NOT NULL,
    max_sequence bigint NOT NULL,
    event_count  bigint NOT NULL,
    asked_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    answer       bytea,
    compared     bigint,
    error        text,
    PRIMARY KEY (task, holder)
);
CREATE INDEX part_comparisons_open ON part_comparisons (holder, asked_at) WHERE answer IS NULL AND error IS NULL;
