-- Rows that a repair could not bring back: see `sql/schema.sql`.
CREATE TABLE lost_rows (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream     text NOT NULL,
    unit       text NOT NULL,
    rows       bigint NOT NULL,
    first_ts   timestamptz,
    last_ts    timestamptz,
    ids        text[] NOT NULL,
    noticed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
