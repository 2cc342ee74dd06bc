-- Keyed series of decisions, and in which incidents alerts were: see `sql/schema.sql`.
UPDATE incident_alerts SET series = encode(sha256(w.erasure_key || convert_to(series, 'UTF8')), 'hex') FROM workspace w;
UPDATE incident_decisions d SET
    series = ARRAY(SELECT encode(sha256(w.erasure_key || convert_to(s, 'UTF8')), 'hex') FROM unnest(d.series) s),
    others = ARRAY(SELECT encode(sha256(w.erasure_key || convert_to(s, 'UTF8')), 'hex') FROM unnest(d.others) s)
FROM workspace w;
CREATE TABLE incident_moves (
    alert_id uuid NOT NULL REFERENCES alerts (id) ON DELETE CASCADE,
    incident uuid NOT NULL,
    until    timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (alert_id, until)
);
CREATE INDEX incident_moves_by_incident ON incident_moves (incident);
CREATE FUNCTION note_move() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO incident_moves (alert_id, incident) VALUES (OLD.alert_id, OLD.incident);
    RETURN NULL;
END
$$;
CREATE TRIGGER alert_moved AFTER UPDATE OF incident ON incident_alerts FOR EACH ROW
    WHEN (OLD.incident <> NEW.incident) EXECUTE FUNCTION note_move();
CREATE FUNCTION incident_at(alert uuid, moment timestamptz) RETURNS uuid LANGUAGE sql STABLE AS $$
    SELECT coalesce(
        (SELECT m.incident FROM incident_moves m WHERE m.alert_id = alert AND m.until > moment ORDER BY m.until LIMIT 1),
        (SELECT m.incident FROM incident_alerts m WHERE m.alert_id = alert))
$$;
