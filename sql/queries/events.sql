-- put --
-- Detected or settled events; settling keeps the rows.
INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)
SELECT eid, rule, version, ts, fingerprint, key, attributes, settled
FROM json_to_recordset(%(rows)s::json) AS new (
    eid uuid, rule text, version text, ts timestamptz, fingerprint text, key jsonb, attributes jsonb, settled boolean)
ON CONFLICT (rule, version, eid) DO UPDATE SET
    settled = true, attributes = excluded.attributes, seq = DEFAULT
WHERE excluded.settled AND NOT events.settled

-- put_early --
-- Events of open windows, with the attributes that they have now.
INSERT INTO events (eid, rule, version, ts, fingerprint, key, attributes, settled)
SELECT eid, rule, version, ts, fingerprint, key, attributes, settled
FROM json_to_recordset(%(rows)s::json) AS new (
    eid uuid, rule text, version text, ts timestamptz, fingerprint text, key jsonb, attributes jsonb, settled boolean)
ON CONFLICT (rule, version, eid) DO UPDATE SET attributes = excluded.attributes
WHERE NOT events.settled AND events.attributes IS DISTINCT FROM excluded.attributes

-- delete_unsettled --
-- Detected events before the horizon that settling did not confirm.
DELETE FROM events WHERE rule = %(rule)s AND NOT settled AND ts < %(horizon)s RETURNING eid, fingerprint

-- delete_other_unsettled --
-- Detected events that are not settled, apart from some.
DELETE FROM events WHERE rule = %(rule)s AND NOT settled AND NOT eid = ANY(%(eids)s::uuid[]) RETURNING eid, fingerprint

-- list_unsettled --
-- Detected events of some fingerprints that are not settled yet.
SELECT eid, ts, fingerprint, key, attributes FROM events
WHERE rule = %(rule)s AND NOT settled AND fingerprint = ANY(%(fingerprints)s) ORDER BY ts, eid

-- list_of_rule --
-- The events of a rule in its deployed version in a range of event time, oldest first.
SELECT e.ts, e.attributes FROM events e
WHERE e.rule = %(rule)s AND (NOT e.settled OR EXISTS (
        SELECT FROM deployments d WHERE d.rule = e.rule AND d.version = e.version AND d.state <> 'stopped'))
  AND (%(start)s::timestamptz IS NULL OR e.ts >= %(start)s)
  AND (%(end)s::timestamptz IS NULL OR e.ts < %(end)s)
ORDER BY e.ts, e.eid

-- list_newest --
-- Events, newest first. `cursor_ts`, `cursor_eid`: the last event of the previous page.
SELECT eid, rule, version, ts, key, attributes, settled, past, at FROM events
WHERE (%(rule)s::text IS NULL OR rule = %(rule)s OR rule LIKE '%%/' || %(rule)s)
  AND (%(since)s::timestamptz IS NULL OR ts >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR ts < %(until)s)
  AND (%(cursor_ts)s::timestamptz IS NULL OR ts < %(cursor_ts)s OR (ts = %(cursor_ts)s AND eid > %(cursor_eid)s::uuid))
ORDER BY ts DESC, eid LIMIT %(limit)s

-- get --
-- One event in all versions of its rule, the last stored first.
SELECT eid, rule, version, ts, key, attributes, settled, past, at FROM events WHERE eid = %(eid)s ORDER BY at DESC

-- export --
-- Settled events of the deployed versions, oldest first.
SELECT eid, rule, ts, key, attributes FROM events WHERE settled ORDER BY ts, eid

-- list_settled_ids --
-- Settled events up to a sequence number, as the archive names them.
SELECT rule, version, eid::text FROM events WHERE settled AND seq <= %(last_number)s

-- list_past --
-- Past events with their alert, its course, and the notes of operators.
SELECT e.eid, e.rule, e.ts, e.attributes, e.key, a.id AS alert, a.state, a.annotations, a.starts_at, a.ends_at, a.last_at,
    c.contexts,
    (SELECT count(*) FROM alerts later WHERE later.rule = e.rule AND later.fingerprint = e.fingerprint
        AND later.starts_at > a.starts_at AND later.starts_at < a.starts_at + interval '7 days'
        AND later.state <> 'withdrawn') AS again,
    coalesce((SELECT jsonb_agg(jsonb_build_object('kind', n.kind, 'author', n.author, 'text', n.text, 'tag', n.tag,
        'result', n.result, 'outcome', n.outcome, 'effect', n.effect, 'superseded_by', n.superseded_by, 'link', n.link,
        'recorded_tag', n.recorded_tag, 'at', n.at) ORDER BY n.at, n.id) FROM alert_notes n WHERE n.alert_id = a.id), '[]') AS notes
FROM events e
LEFT JOIN LATERAL (
    SELECT * FROM alerts a WHERE a.rule = e.rule AND a.fingerprint = e.fingerprint
        AND e.ts BETWEEN a.starts_at AND a.last_at ORDER BY a.state = 'withdrawn', a.starts_at DESC LIMIT 1) a ON true
LEFT JOIN contexts c ON c.rule = e.rule AND c.version = e.version AND c.eid = e.eid
WHERE e.eid = ANY(%(eids)s)
