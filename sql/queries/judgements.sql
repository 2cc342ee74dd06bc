-- corpus --
-- The corpus of a version with what it turned out to be: the tag of the last tagged resolution of each event's alert.
SELECT c.eid::text AS eid, (extract(epoch FROM c.ts) * 1000000)::bigint AS ts, c.contexts, e.fingerprint, n.tag
FROM contexts c
JOIN events e ON e.rule = c.rule AND e.version = c.version AND e.eid = c.eid
LEFT JOIN LATERAL (
    SELECT n.tag FROM alerts a JOIN alert_notes n ON n.alert_id = a.id
    WHERE a.rule = e.rule AND a.fingerprint = e.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at
        AND n.kind = 'resolution' AND n.tag IS NOT NULL
    ORDER BY n.at DESC, n.id DESC LIMIT 1) n ON true
WHERE c.rule = %(rule)s AND c.version = %(version)s AND c.corpus IS NOT NULL
ORDER BY c.ts, c.eid

-- said --
-- What was said of hits of a rule's events.
SELECT j.eid::text, j.past_eid::text, j.helps FROM judgements j
WHERE EXISTS (SELECT FROM events e WHERE e.eid = j.eid AND e.rule = %(rule)s)

-- judge --
-- Somebody says whether a past event helps with an event; the last word counts.
INSERT INTO judgements (eid, past_eid, helps, author) VALUES (%(eid)s, %(past_eid)s, %(helps)s, %(author)s)
ON CONFLICT (eid, past_eid) DO UPDATE SET helps = excluded.helps, author = excluded.author, at = clock_timestamp()

-- rule_of --
-- The rules of some events.
SELECT DISTINCT rule FROM events WHERE eid = %(eid)s

-- basis --
-- How much was said, and when last: what is learned from it is learned anew when this changes.
SELECT (SELECT count(*) FROM alert_notes WHERE tag IS NOT NULL) + (SELECT count(*) FROM judgements),
    greatest((SELECT max(at) FROM alert_notes WHERE tag IS NOT NULL), (SELECT max(at) FROM judgements))

-- put_calibration --
INSERT INTO calibrations (rule, version, recall, model) VALUES (%(rule)s, %(version)s, %(recall)s, %(model)s)
ON CONFLICT (rule, version, recall) DO UPDATE SET model = excluded.model, learned_at = clock_timestamp()

-- drop_calibration --
DELETE FROM calibrations WHERE rule = %(rule)s AND version = %(version)s AND recall = %(recall)s

-- calibration --
SELECT model FROM calibrations WHERE rule = %(rule)s AND version = %(version)s AND recall = %(recall)s

-- kinds --
-- What some past events turned out to be: the tag of the last tagged resolution of each one's alert, NULL where none is
-- known. The alert is chosen as where past events are shown.
SELECT e.eid::text, (
    SELECT n.tag FROM alert_notes n WHERE n.alert_id = a.id AND n.kind = 'resolution' AND n.tag IS NOT NULL
    ORDER BY n.at DESC, n.id DESC LIMIT 1)
FROM events e
LEFT JOIN LATERAL (
    SELECT a.id FROM alerts a WHERE a.rule = e.rule AND a.fingerprint = e.fingerprint
        AND e.ts BETWEEN a.starts_at AND a.last_at ORDER BY a.state = 'withdrawn', a.starts_at DESC LIMIT 1) a ON true
WHERE e.eid = ANY(%(eids)s::uuid[])
