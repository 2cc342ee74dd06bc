-- The service layer: assignments, the audit log, idempotent requests, browser sessions, changes for live clients, metrics
-- of processes, and the views of the schema `dashboard`.
ALTER TABLE alert_notes ADD COLUMN assignee text;
ALTER TABLE alert_notes DROP CONSTRAINT alert_notes_kind_check;
ALTER TABLE alert_notes ADD CONSTRAINT alert_notes_kind_check CHECK (kind IN ('ack', 'note', 'resolution', 'assign'));

CREATE TABLE audit (
    id        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    author    text NOT NULL,
    via       text NOT NULL,
    operation text NOT NULL,
    arguments jsonb NOT NULL
);

CREATE TABLE requests (
    author    text NOT NULL,
    key       text NOT NULL,
    operation text NOT NULL,
    digest    bytea NOT NULL,
    response  jsonb,
    at        timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (author, key)
);
CREATE INDEX requests_by_time ON requests (at);

CREATE TABLE sessions (
    hash       bytea PRIMARY KEY,
    token      text NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    created_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    expires_at timestamptz NOT NULL
);
CREATE TABLE login_codes (
    hash       bytea PRIMARY KEY,
    token      text NOT NULL REFERENCES tokens (id) ON DELETE CASCADE,
    expires_at timestamptz NOT NULL
);

CREATE TABLE process_metrics (
    role    text PRIMARY KEY,
    metrics jsonb NOT NULL,
    at      timestamptz NOT NULL DEFAULT clock_timestamp()
);

CREATE TABLE changes (
    xid    xid8 NOT NULL DEFAULT pg_current_xact_id(),
    id     bigint GENERATED ALWAYS AS IDENTITY,
    kind   text NOT NULL CHECK (kind IN ('alert', 'recall', 'revision')),
    key    uuid NOT NULL,
    number integer,
    at     timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (xid, id)
);
CREATE INDEX changes_by_time ON changes (at);

CREATE FUNCTION record_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'alerts' THEN
        INSERT INTO changes (kind, key) VALUES ('alert', NEW.id);
    ELSIF TG_TABLE_NAME = 'alert_notes' THEN
        INSERT INTO changes (kind, key) VALUES ('alert', NEW.alert_id);
    ELSIF TG_TABLE_NAME = 'tasks' THEN
        INSERT INTO changes (kind, key) VALUES ('recall', NEW.id);
    ELSE
        INSERT INTO changes (kind, key, number) VALUES ('revision', NEW.task, NEW.number);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER alert_inserted AFTER INSERT ON alerts FOR EACH ROW WHEN (NOT NEW.past)
    EXECUTE FUNCTION record_change();
CREATE TRIGGER alert_changed AFTER UPDATE ON alerts FOR EACH ROW
    WHEN (NOT NEW.past AND (OLD.state, OLD.verdict, OLD.eid, OLD.starts_at, OLD.fired_at, OLD.ends_at, OLD.labels, OLD.annotations)
        IS DISTINCT FROM (NEW.state, NEW.verdict, NEW.eid, NEW.starts_at, NEW.fired_at, NEW.ends_at, NEW.labels, NEW.annotations))
    EXECUTE FUNCTION record_change();
CREATE TRIGGER alert_noted AFTER INSERT ON alert_notes FOR EACH ROW EXECUTE FUNCTION record_change();
CREATE TRIGGER recall_inserted AFTER INSERT ON tasks FOR EACH ROW EXECUTE FUNCTION record_change();
CREATE TRIGGER recall_changed AFTER UPDATE OF state ON tasks FOR EACH ROW
    WHEN (OLD.state IS DISTINCT FROM NEW.state AND NEW.state NOT IN ('waiting', 'running'))
    EXECUTE FUNCTION record_change();
CREATE TRIGGER revision_inserted AFTER INSERT ON revisions FOR EACH ROW EXECUTE FUNCTION record_change();

CREATE SCHEMA IF NOT EXISTS dashboard;
CREATE VIEW dashboard.alerts AS
SELECT a.id, a.eid, a.rule, a.labels->>'alertname' AS alertname, a.labels->>'severity' AS severity,
    a.annotations->>'summary' AS summary, CASE WHEN a.verdict = 'held back' THEN 'withdrawn' ELSE a.state END AS state,
    a.verdict AS history, a.key, a.labels, a.annotations, a.starts_at, a.fired_at, a.last_at, a.ends_at, a.events,
    a.past, a.raised_at, a.updated_at,
    (SELECT n.author FROM alert_notes n WHERE n.alert_id = a.id AND n.kind = 'ack'
        ORDER BY n.at DESC, n.id DESC LIMIT 1) AS acknowledged_by,
    (SELECT n.assignee FROM alert_notes n WHERE n.alert_id = a.id AND n.kind = 'assign'
        ORDER BY n.at DESC, n.id DESC LIMIT 1) AS assigned_to,
    r.text AS resolution, r.tag
FROM alerts a
LEFT JOIN LATERAL (SELECT n.text, n.tag FROM alert_notes n WHERE n.alert_id = a.id AND n.kind = 'resolution'
    ORDER BY n.at DESC, n.id DESC LIMIT 1) r ON true;

CREATE VIEW dashboard.recalls AS
SELECT t.id, t.eid, t.rule, t.recall, t.request->>'kind' AS kind, t.state, t.created_at AS requested_at,
    t.first_at AS first_answer_at, t.ended_at, jsonb_array_length(t.pieces) AS chunks, t.next AS chunks_read,
    t.failed AS chunks_failed, t.revision, t.tickets, t.seconds, t.error
FROM tasks t;

CREATE VIEW dashboard.similar_events AS
SELECT t.eid, t.rule, t.recall, (hit->>'rank')::integer AS rank, (hit->>'score')::float8 AS score,
    (hit->>'past_eid')::uuid AS past_eid, to_timestamp((hit->>'past_ts')::float8 / 1000000) AS past_ts,
    (SELECT string_agg(term->>0, ', ' ORDER BY place) FROM jsonb_array_elements(hit->'shared') WITH ORDINALITY AS s (term, place)
        WHERE place <= 5) AS reason,
    a.id AS past_alert, a.resolution, a.tag
FROM tasks t
CROSS JOIN LATERAL (SELECT r.answer FROM revisions r WHERE r.task = t.id ORDER BY r.number DESC LIMIT 1) r
CROSS JOIN LATERAL jsonb_array_elements(r.answer) hit
LEFT JOIN LATERAL (SELECT p.id, p.resolution, p.tag FROM dashboard.alerts p WHERE p.eid = (hit->>'past_eid')::uuid
    ORDER BY p.starts_at DESC LIMIT 1) a ON true
WHERE t.request->>'kind' = 'similar';

CREATE VIEW dashboard.streams AS
SELECT s.name AS stream, s.newest, s.advanced AS advanced_to, u.read, u.archived, u.late, u.duplicates,
    u.malformed + u.quarantined + u.conflicts + u.expired AS dead_lettered, u.last_read_at
FROM streams s
LEFT JOIN LATERAL (SELECT sum(n.read)::bigint AS read, sum(n.archived)::bigint AS archived, sum(n.late)::bigint AS late,
        sum(n.duplicates)::bigint AS duplicates, sum(n.malformed)::bigint AS malformed,
        sum(n.quarantined)::bigint AS quarantined, sum(n.conflicts)::bigint AS conflicts,
        sum(n.expired)::bigint AS expired, max(n.done_at) AS last_read_at
    FROM units n WHERE n.stream = s.name) u ON true;

CREATE VIEW dashboard.chunks AS
SELECT c.id AS chunk, c.from_ts, c.to_ts, c.state, c.closed_at, c.expired_at, c.late_at FROM chunks c;
