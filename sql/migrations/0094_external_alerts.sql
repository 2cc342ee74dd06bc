-- Alerts that other systems post: see `sql/schema.sql`.
CREATE TABLE external_rules (
    alertname text PRIMARY KEY,
    rule      text NOT NULL,
    first_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE external_alerts (
    alert_id    uuid PRIMARY KEY REFERENCES alerts (id) ON DELETE CASCADE,
    fingerprint text NOT NULL,
    posted_at   timestamptz NOT NULL,
    ends        jsonb NOT NULL
);
CREATE TABLE external_progress (
    one     boolean PRIMARY KEY DEFAULT true CHECK (one),
    read_to timestamptz
);
INSERT INTO external_progress VALUES (true);
