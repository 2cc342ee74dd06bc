-- Recalls and stages as streams of row revisions, closed by boundaries; the history of an alert.
CREATE TABLE revision_streams (
    id       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    rule     text NOT NULL,
    name     text NOT NULL,
    last_seq bigint NOT NULL DEFAULT 0,
    archived bigint NOT NULL DEFAULT 0,
    UNIQUE (rule, name)
);

CREATE TABLE row_revisions (
    stream  integer NOT NULL REFERENCES revision_streams (id) ON DELETE CASCADE,
    seq     bigint NOT NULL,
    eid     uuid NOT NULL,
    version text NOT NULL,
    ts      timestamptz NOT NULL,
    op      text NOT NULL CHECK (op IN ('insert', 'update', 'delete', 'boundary')),
    row_key text,
    row     jsonb,
    old_row jsonb,
    at      timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (stream, seq)
);
CREATE INDEX row_revisions_by_event ON row_revisions (stream, eid, version, seq);

CREATE TABLE recalled_events (
    rule        text NOT NULL,
    version     text NOT NULL,
    eid         uuid NOT NULL,
    ts          timestamptz NOT NULL,
    event       jsonb NOT NULL,
    plan        jsonb NOT NULL,
    positions   jsonb NOT NULL DEFAULT '{}',
    evaluations bigint NOT NULL DEFAULT 0,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    evaluated_at timestamptz,
    timed_out   boolean NOT NULL DEFAULT false,
    ended_at    timestamptz,
    PRIMARY KEY (rule, version, eid)
);
CREATE INDEX recalled_events_open ON recalled_events (rule, ts) WHERE ended_at IS NULL;
CREATE INDEX recalled_events_by_eid ON recalled_events (eid);
CREATE INDEX recalled_events_ended ON recalled_events (ts) WHERE ended_at IS NOT NULL;

CREATE TABLE stages (
    rule       text NOT NULL,
    version    text NOT NULL,
    eid        uuid NOT NULL,
    name       text NOT NULL,
    state      text NOT NULL CHECK (state IN ('running', 'done', 'failed')),
    revision   integer NOT NULL DEFAULT 0,
    error      text,
    updated_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (rule, version, eid, name),
    FOREIGN KEY (rule, version, eid) REFERENCES recalled_events ON DELETE CASCADE
);

ALTER TABLE tasks ADD COLUMN progressed_at timestamptz;

-- The result of `where` gets a name and values of its own, and is evaluated at each revision.
ALTER TABLE alerts DROP CONSTRAINT IF EXISTS alerts_verdict_check;
ALTER TABLE alerts RENAME COLUMN verdict TO history;
ALTER TABLE alerts ADD COLUMN history_final boolean NOT NULL DEFAULT false;
UPDATE alerts SET history_final = true,
    history = CASE history WHEN 'held back' THEN 'withdrawn' WHEN 'no history' THEN 'no_history' ELSE history END
WHERE history IS NOT NULL;
ALTER TABLE alerts ADD CONSTRAINT alerts_history_check
    CHECK (history IN ('waiting', 'kept', 'withdrawn', 'no_history'));

CREATE TABLE alert_history (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    alert_id uuid NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    eid      uuid NOT NULL,
    history  text NOT NULL CHECK (history IN ('waiting', 'kept', 'withdrawn', 'no_history')),
    final    boolean NOT NULL,
    reason   text NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX alert_history_by_alert ON alert_history (alert_id, id);

-- Events whose condition was not decided by the version before: it is decided as those of new events.
INSERT INTO recalled_events (rule, version, eid, ts, event, plan)
SELECT DISTINCT ON (t.rule, t.version, t.eid) t.rule, t.version, t.eid,
    to_timestamp(0) + (t.event->>'ts')::bigint * interval '1 microsecond', t.event,
    jsonb_build_object('where', t.request->>'where', 'attributes', t.request->'attributes',
        'judged', t.request->'judged')
FROM tasks t JOIN alerts a ON a.rule = t.rule AND a.eid = t.eid AND a.history IS NULL
WHERE t.request->>'where' IS NOT NULL AND t.state <> 'cancelled' AND a.state <> 'withdrawn'
ORDER BY t.rule, t.version, t.eid;
UPDATE alerts a SET history = 'waiting' FROM recalled_events r WHERE r.rule = a.rule AND r.eid = a.eid AND a.history IS NULL;

DROP INDEX IF EXISTS tasks_with_where;
