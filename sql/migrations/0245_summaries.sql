-- Summaries of closed chunks: see `sql/schema.sql`.
CREATE TABLE summaries (
    key text PRIMARY KEY,
    stream text NOT NULL,
    definition jsonb NOT NULL,
    bytes bigint NOT NULL DEFAULT 0,
    chunks bigint NOT NULL DEFAULT 0,
    rows bigint NOT NULL DEFAULT 0,
    groups bigint NOT NULL DEFAULT 0,
    asked bigint NOT NULL DEFAULT 0,
    build_seconds double precision NOT NULL DEFAULT 0,
    read_seconds double precision NOT NULL DEFAULT 0,
    lookup_seconds double precision NOT NULL DEFAULT 0,
    loss text,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
