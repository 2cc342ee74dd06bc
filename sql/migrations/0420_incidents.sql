-- Incidents, and what people decided about them: see `sql/schema.sql`.
CREATE TABLE incidents (
    id          uuid PRIMARY KEY,
    state       text NOT NULL DEFAULT 'proposed' CHECK (state IN ('proposed', 'confirmed', 'merged')),
    merged_into uuid,
    created_at  timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE TABLE incident_alerts (
    alert_id  uuid PRIMARY KEY REFERENCES alerts (id) ON DELETE CASCADE,
    incident  uuid NOT NULL REFERENCES incidents (id) ON DELETE CASCADE,
    number    bigint GENERATED ALWAYS AS IDENTITY,
    series    text NOT NULL,
    overlap   double precision NOT NULL,
    reason    text NOT NULL,
    changes   text[] NOT NULL,
    placed_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX incident_alerts_by_incident ON incident_alerts (incident);
CREATE TABLE unplaced_alerts (
    alert_id uuid PRIMARY KEY REFERENCES alerts (id) ON DELETE CASCADE
);
CREATE FUNCTION queue_alert() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO unplaced_alerts VALUES (NEW.id) ON CONFLICT DO NOTHING;
    RETURN NULL;
END
$$;
CREATE TRIGGER alert_fired AFTER INSERT ON alerts FOR EACH ROW WHEN (NEW.fired_at IS NOT NULL AND NOT NEW.past)
    EXECUTE FUNCTION queue_alert();
CREATE TRIGGER alert_fired_later AFTER UPDATE OF fired_at ON alerts FOR EACH ROW
    WHEN (OLD.fired_at IS NULL AND NEW.fired_at IS NOT NULL AND NOT NEW.past) EXECUTE FUNCTION queue_alert();
CREATE TABLE incident_decisions (
    id       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    incident uuid NOT NULL,
    kind     text NOT NULL CHECK (kind IN ('confirm', 'split', 'merge')),
    other    uuid,
    author   text NOT NULL,
    comment  text NOT NULL,
    series   text[] NOT NULL,
    others   text[] NOT NULL,
    at       timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX incident_decisions_by_incident ON incident_decisions (incident);
CREATE VIEW incident_spans AS
SELECT i.id, i.state, min(a.starts_at) AS starts_at, CASE WHEN bool_and(a.ends_at IS NOT NULL) THEN max(a.ends_at) END AS ends_at,
    count(*) AS alerts, count(*) FILTER (WHERE a.ends_at IS NULL) AS firing, count(r.at) AS resolved, max(r.at) AS resolved_at,
    array_agg(DISTINCT a.rule ORDER BY a.rule) AS rules
FROM incidents i JOIN incident_alerts m ON m.incident = i.id JOIN alerts a ON a.id = m.alert_id
CROSS JOIN LATERAL (SELECT max(n.at) AS at FROM alert_notes n WHERE n.alert_id = a.id AND n.kind = 'resolution') r
WHERE a.fired_at IS NOT NULL AND NOT a.past AND a.state <> 'withdrawn' AND a.history IS DISTINCT FROM 'withdrawn'
GROUP BY i.id;
INSERT INTO unplaced_alerts SELECT id FROM alerts WHERE fired_at IS NOT NULL AND NOT past AND state <> 'withdrawn'
    AND history IS DISTINCT FROM 'withdrawn';
