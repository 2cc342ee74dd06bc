-- Calibrations are learned from episodes, with intervals. Earlier ones are learned again from the same feedback.
DELETE FROM calibrations;
ALTER TABLE revisions ADD COLUMN match jsonb;
