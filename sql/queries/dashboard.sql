-- alerts --
-- Rows of the view, newest first.
SELECT to_jsonb(v) FROM dashboard.alerts v
WHERE (%(since)s::timestamptz IS NULL OR starts_at >= %(since)s) AND (%(until)s::timestamptz IS NULL OR starts_at < %(until)s)
ORDER BY starts_at DESC, id LIMIT %(limit)s

-- recalls --
-- Rows of the view, newest first.
SELECT to_jsonb(v) FROM dashboard.recalls v
WHERE (%(since)s::timestamptz IS NULL OR requested_at >= %(since)s) AND (%(until)s::timestamptz IS NULL OR requested_at < %(until)s)
ORDER BY requested_at DESC, id LIMIT %(limit)s

-- similar_events --
-- Rows of the view, most similar first.
SELECT to_jsonb(v) FROM dashboard.similar_events v
WHERE (%(since)s::timestamptz IS NULL OR ts >= %(since)s) AND (%(until)s::timestamptz IS NULL OR ts < %(until)s)
  AND (%(eid)s::uuid IS NULL OR eid = %(eid)s)
ORDER BY eid, recall, rank LIMIT %(limit)s

-- streams --
-- Rows of the view.
SELECT to_jsonb(v) FROM dashboard.streams v ORDER BY stream LIMIT %(limit)s

-- chunks --
-- Rows of the view, newest first.
SELECT to_jsonb(v) FROM dashboard.chunks v
WHERE (%(since)s::timestamptz IS NULL OR to_ts IS NULL OR to_ts >= %(since)s)
  AND (%(until)s::timestamptz IS NULL OR from_ts IS NULL OR from_ts < %(until)s)
ORDER BY chunk DESC LIMIT %(limit)s
