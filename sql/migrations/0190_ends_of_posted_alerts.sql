-- When posted alerts end by the clock: see `sql/schema.sql`.
ALTER TABLE external_alerts ADD COLUMN open_until bigint;
UPDATE external_alerts x SET open_until = (SELECT max(e.value::bigint) FROM jsonb_each_text(x.ends) e)
FROM alerts a WHERE a.id = x.alert_id AND a.ends_at IS NULL;
CREATE INDEX external_alerts_open ON external_alerts (open_until) WHERE open_until IS NOT NULL;
