-- insert --
-- A note of an operator about an alert.
INSERT INTO alert_notes (alert_id, kind, author, text, tag, assignee, result, outcome)
VALUES (%(alert_id)s, %(kind)s, %(author)s, %(text)s, %(tag)s, %(assignee)s, %(result)s, %(outcome)s)

-- list_by_alerts --
-- The notes of some alerts, oldest first.
SELECT alert_id, kind, author, text, tag, assignee, result, outcome, at FROM alert_notes WHERE alert_id = ANY(%(alert_ids)s) ORDER BY at, id
