-- insert --
-- A note of an operator about an alert.
INSERT INTO alert_notes (alert_id, kind, author, text, tag, assignee, result, outcome, effect, superseded_by, link)
VALUES (%(alert_id)s, %(kind)s, %(author)s, %(text)s, coalesce((SELECT tag FROM tag_names WHERE old_tag = %(tag)s), %(tag)s),
    %(assignee)s, %(result)s, %(outcome)s, %(effect)s,
    coalesce((SELECT tag FROM tag_names WHERE old_tag = %(superseded_by)s), %(superseded_by)s), %(link)s)

-- list_by_alerts --
-- The notes of some alerts, oldest first.
SELECT alert_id, kind, author, text, tag, assignee, result, outcome, effect, superseded_by, link, recorded_tag, at FROM alert_notes WHERE alert_id = ANY(%(alert_ids)s) ORDER BY at, id
