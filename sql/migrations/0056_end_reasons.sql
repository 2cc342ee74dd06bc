-- Why an alert ended: its condition is false, or its data vanished.
ALTER TABLE alerts ADD COLUMN end_reason text CHECK (end_reason IN ('ended', 'no_data'));
