-- Bytes on disk by kind: see `sql/schema.sql`.
CREATE TABLE stored_bytes (
    kind text NOT NULL,
    stream text NOT NULL DEFAULT '',
    chunk integer NOT NULL DEFAULT -1,
    bytes bigint NOT NULL,
    measured_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (kind, stream, chunk)
);
