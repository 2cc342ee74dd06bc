-- Processes of several machines, leases and who waits: see `sql/schema.sql`.
ALTER TABLE processes ADD COLUMN machine text NOT NULL DEFAULT '';
ALTER TABLE processes ADD COLUMN renewals bigint;
CREATE TABLE waiting_processes (
    role       text NOT NULL,
    machine    text NOT NULL,
    pid        integer NOT NULL,
    started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    beat_at    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (role, machine, pid)
);
