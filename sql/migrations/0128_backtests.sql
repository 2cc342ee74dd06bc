-- Back-tests that clients of the server have started: see `sql/schema.sql`.
CREATE TABLE backtests (
    id               uuid PRIMARY KEY,
    author           text NOT NULL,
    request          jsonb NOT NULL,
    state            text NOT NULL DEFAULT 'waiting'
        CHECK (state IN ('waiting', 'running', 'done', 'failed', 'cancelled')),
    progress         double precision NOT NULL DEFAULT 0,
    result           jsonb,
    error            text,
    cancel_requested boolean NOT NULL DEFAULT false,
    attempts         integer NOT NULL DEFAULT 0,
    requested_at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    started_at       timestamptz,
    seen_at          timestamptz,
    ended_at         timestamptz
);
CREATE INDEX ON backtests (requested_at);
