-- Steps that somebody checked about an alert, and resolutions that an agent proposes: a person confirms them.
ALTER TABLE alert_notes ADD COLUMN result text;
ALTER TABLE alert_notes ADD COLUMN outcome text CHECK (outcome IN ('ruled out', 'confirmed', 'open'));
ALTER TABLE alert_notes DROP CONSTRAINT alert_notes_kind_check;
ALTER TABLE alert_notes ADD CONSTRAINT alert_notes_kind_check
    CHECK (kind IN ('ack', 'note', 'resolution', 'assign', 'checked', 'proposal'));
