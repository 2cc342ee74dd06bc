-- Streams whose files are rewritten for changed columns; their input waits.
CREATE TABLE column_rewrites (
    stream       text PRIMARY KEY,
    columns      text[] NOT NULL,
    state        text NOT NULL CHECK (state IN ('checking', 'rewriting', 'failing', 'refused')),
    steps_done   integer NOT NULL,
    steps        integer NOT NULL,
    bytes_needed bigint NOT NULL,
    reason       text,
    started_at   timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at   timestamptz NOT NULL DEFAULT clock_timestamp()
);
