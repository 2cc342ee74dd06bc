-- Notifications: groups of alerts, what receivers were told, the outbox of messages, silences.
ALTER TABLE alerts ADD COLUMN quiet boolean NOT NULL
    DEFAULT coalesce(current_setting('moirae.notify', true), '') = 'off';

CREATE TABLE notify_state (
    one       boolean PRIMARY KEY DEFAULT true CHECK (one),
    xid       bigint,
    change    bigint,
    problems  jsonb,
    loaded_at timestamptz
);
INSERT INTO notify_state VALUES (true);

CREATE TABLE notify_groups (
    id          text PRIMARY KEY,
    route       text NOT NULL,
    key         text NOT NULL,
    labels      jsonb NOT NULL,
    due_at      timestamptz NOT NULL,
    has_flushed boolean NOT NULL,
    members     uuid[] NOT NULL
);

CREATE TABLE notify_log (
    id       text PRIMARY KEY,
    receiver text NOT NULL,
    key      text NOT NULL,
    firing   text[] NOT NULL,
    resolved text[] NOT NULL,
    at       timestamptz NOT NULL
);

CREATE TABLE notify_held (
    alert_id uuid PRIMARY KEY,
    reason   text NOT NULL CHECK (reason IN ('late', 'history')),
    since    timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE notifications (
    id          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    receiver    text NOT NULL,
    group_key   text NOT NULL,
    cause       text NOT NULL,
    status      text NOT NULL,
    content     jsonb NOT NULL,
    alert_count integer NOT NULL,
    state       text NOT NULL CHECK (state IN ('pending', 'folded', 'delivered', 'failed')),
    attempts    integer NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    ended_at    timestamptz,
    error       text,
    summary     bigint REFERENCES notifications (id) ON DELETE SET NULL,
    thread      text
);
CREATE INDEX notifications_open ON notifications (id) WHERE state = 'pending';
CREATE INDEX notifications_folded ON notifications (receiver, id) WHERE state = 'folded' AND summary IS NULL;
CREATE INDEX notifications_by_time ON notifications (created_at);
CREATE INDEX notifications_by_receiver ON notifications (receiver, id);

CREATE TABLE notification_alerts (
    notification bigint NOT NULL REFERENCES notifications (id) ON DELETE CASCADE,
    alert_id     uuid NOT NULL,
    status       text NOT NULL CHECK (status IN ('firing', 'resolved')),
    PRIMARY KEY (notification, alert_id)
);
CREATE INDEX notification_alerts_by_alert ON notification_alerts (alert_id);

CREATE TABLE receiver_states (
    receiver      text PRIMARY KEY,
    delivered_at  timestamptz,
    failing_since timestamptz,
    failures      integer NOT NULL DEFAULT 0,
    error         text
);

CREATE TABLE silences (
    id         uuid PRIMARY KEY,
    matchers   jsonb NOT NULL,
    starts_at  timestamptz NOT NULL,
    ends_at    timestamptz NOT NULL,
    schedule   jsonb,
    author     text NOT NULL,
    comment    text NOT NULL,
    replaces   uuid,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX silences_by_end ON silences (ends_at);
