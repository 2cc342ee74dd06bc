-- Rows over which a version of a rule has no verdict: it exceeded its limit for them.
CREATE TABLE lost_verdicts (
    rule     text NOT NULL,
    version  text NOT NULL,
    stream   text NOT NULL,
    -- The event time of the row, and a hash of its values.
    ts       timestamptz NOT NULL,
    row_hash text NOT NULL,
    -- The row as JSON; long texts are shortened.
    row      jsonb NOT NULL,
    reason   text NOT NULL,
    lost_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (rule, version, stream, ts, row_hash)
);
-- Since when a rule is in quarantine because it lost too many verdicts; one row in 100 is still
-- evaluated. NULL: it is not.
ALTER TABLE deployments ADD COLUMN losing_since timestamptz;
ALTER TABLE rule_errors DROP CONSTRAINT rule_errors_kind_check;
ALTER TABLE rule_errors ADD CONSTRAINT rule_errors_kind_check
    CHECK (kind IN ('error', 'time', 'memory', 'flood', 'lost'));
