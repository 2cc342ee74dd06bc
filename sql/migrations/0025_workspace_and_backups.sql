-- The identity of the workspace, and its backups: see `sql/schema.sql`.
CREATE TABLE workspace (
    one           boolean PRIMARY KEY DEFAULT true CHECK (one),
    id            uuid NOT NULL DEFAULT gen_random_uuid(),
    generation    integer NOT NULL DEFAULT 1,
    restored_from text,
    backed_up_at  timestamptz,
    restored_at   timestamptz
);
INSERT INTO workspace DEFAULT VALUES;

CREATE TABLE backups (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name        text,
    destination text NOT NULL,
    started_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    taken_at    timestamptz,
    finished_at timestamptz,
    rows        bigint,
    bytes       bigint,
    new_bytes   bigint,
    error       text
);
CREATE INDEX backups_by_start ON backups (started_at);
