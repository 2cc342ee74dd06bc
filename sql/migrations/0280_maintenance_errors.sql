-- Maintenance of chunks that fails: see `sql/schema.sql`.
CREATE TABLE maintenance_errors (
    chunk     integer NOT NULL REFERENCES chunks (id) ON DELETE CASCADE,
    task      text NOT NULL,
    error     text NOT NULL,
    failed_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (chunk, task)
);
