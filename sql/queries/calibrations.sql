-- put --
-- Store the calibration of a recall.
INSERT INTO calibrations (rule, version, recall, model) VALUES (%(rule)s, %(version)s, %(recall)s, %(model)s)
ON CONFLICT (rule, version, recall) DO UPDATE SET model = excluded.model, learned_at = clock_timestamp()

-- delete --
-- Delete the calibration of a recall.
DELETE FROM calibrations WHERE rule = %(rule)s AND version = %(version)s AND recall = %(recall)s

-- get_model --
-- The calibration of a recall.
SELECT model FROM calibrations WHERE rule = %(rule)s AND version = %(version)s AND recall = %(recall)s
