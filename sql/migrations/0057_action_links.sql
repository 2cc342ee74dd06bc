-- Links of messages that act once: see `sql/schema.sql`.
CREATE TABLE action_links (
    digest     bytea PRIMARY KEY,
    alert_id   uuid NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    action     text NOT NULL CHECK (action IN ('acknowledge', 'silence')),
    receiver   text NOT NULL,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL,
    used_at    timestamptz,
    revoked_at timestamptz
);
CREATE INDEX action_links_by_alert ON action_links (alert_id);
CREATE INDEX action_links_by_end ON action_links (expires_at);
