-- Versions of relations: which one is in use, and which is held back for its few rows.
CREATE TABLE relation_sources (
    relation    text PRIMARY KEY,
    fingerprint text NOT NULL,
    rows        bigint NOT NULL,
    read_at     timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE held_relations (
    relation    text PRIMARY KEY,
    fingerprint text NOT NULL,
    rows        bigint NOT NULL,
    rows_in_use bigint NOT NULL,
    held_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    accepted    boolean NOT NULL DEFAULT false
);
