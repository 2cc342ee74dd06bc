-- Erased rows: see `sql/schema.sql`.
ALTER TABLE workspace ADD COLUMN erasure_key bytea NOT NULL
    DEFAULT decode(replace(gen_random_uuid()::text || gen_random_uuid()::text, '-', ''), 'hex');
ALTER TABLE units ADD COLUMN erased bigint NOT NULL DEFAULT 0;
ALTER TABLE units ADD COLUMN erased_again bigint NOT NULL DEFAULT 0;
CREATE TABLE erasures (
    id             uuid PRIMARY KEY,
    author         text NOT NULL,
    condition_hash bytea NOT NULL,
    streams        text[] NOT NULL,
    rows           bigint NOT NULL DEFAULT 0,
    state          text NOT NULL DEFAULT 'erasing' CHECK (state IN ('listed', 'erasing', 'purging', 'done')),
    first_ts       timestamptz,
    last_ts        timestamptz,
    effects        jsonb NOT NULL DEFAULT '{}',
    started_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    finished_at    timestamptz
);
CREATE TABLE erased_rows (
    stream  text NOT NULL,
    hash    bytea NOT NULL,
    unit    bigint NOT NULL,
    line    bigint NOT NULL,
    hour    bigint NOT NULL,
    erasure uuid NOT NULL REFERENCES erasures (id) ON DELETE CASCADE,
    PRIMARY KEY (stream, hash, unit, line)
);
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
