-- Live clients get the stages of events and their boundaries.
ALTER TABLE changes ADD COLUMN version text;
ALTER TABLE changes ADD COLUMN name text;
ALTER TABLE changes DROP CONSTRAINT changes_kind_check;
ALTER TABLE changes ADD CONSTRAINT changes_kind_check
    CHECK (kind IN ('alert', 'recall', 'revision', 'stage', 'boundary'));

CREATE OR REPLACE FUNCTION record_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF TG_TABLE_NAME = 'alerts' THEN
        INSERT INTO changes (kind, key) VALUES ('alert', NEW.id);
    ELSIF TG_TABLE_NAME = 'alert_notes' THEN
        INSERT INTO changes (kind, key) VALUES ('alert', NEW.alert_id);
    ELSIF TG_TABLE_NAME = 'tasks' THEN
        INSERT INTO changes (kind, key) VALUES ('recall', NEW.id);
    ELSIF TG_TABLE_NAME = 'stages' THEN
        INSERT INTO changes (kind, key, version, name) VALUES ('stage', NEW.eid, NEW.version, NEW.name);
    ELSIF TG_TABLE_NAME = 'recalled_events' THEN
        INSERT INTO changes (kind, key, version) VALUES ('boundary', NEW.eid, NEW.version);
    ELSE
        INSERT INTO changes (kind, key, number) VALUES ('revision', NEW.task, NEW.number);
    END IF;
    RETURN NULL;
END
$$;
CREATE TRIGGER stage_changed AFTER INSERT OR UPDATE ON stages FOR EACH ROW EXECUTE FUNCTION record_change();
CREATE TRIGGER event_ended AFTER UPDATE OF ended_at ON recalled_events FOR EACH ROW
    WHEN (OLD.ended_at IS NULL AND NEW.ended_at IS NOT NULL) EXECUTE FUNCTION record_change();
