-- add --
-- Add the rows that rules lost; those that are known stay.
INSERT INTO lost_verdicts (rule, version, stream, ts, row_hash, row, reason)
SELECT rule, version, stream, ts, row_hash, row, reason
FROM json_to_recordset(%(rows)s::json) AS r
    (rule text, version text, stream text, ts timestamptz, row_hash text, row jsonb, reason text)
ON CONFLICT DO NOTHING

-- delete_oldest --
-- Delete the rows that a version lost except the newest ones.
DELETE FROM lost_verdicts WHERE (rule, version, stream, ts, row_hash) IN (
    SELECT rule, version, stream, ts, row_hash FROM lost_verdicts
    WHERE rule = %(rule)s AND version = %(version)s ORDER BY lost_at DESC, ts DESC OFFSET %(retained)s
)

-- list_known --
-- The rows that the versions in use have lost.
SELECT l.rule, l.version, l.stream, l.ts, l.row_hash FROM lost_verdicts l
JOIN deployments d ON d.rule = l.rule AND d.version = l.version AND d.state <> 'stopped'

-- list_newest --
-- The rows that the versions of a rule have lost, newest first.
SELECT rule, version, stream, ts, row, reason, lost_at FROM lost_verdicts
WHERE rule = %(rule)s ORDER BY lost_at DESC, ts DESC LIMIT %(limit)s

-- count_by_rule --
-- The rows that the versions in use have lost since a time, the rules with most of them first.
SELECT l.rule, count(*) AS rows, min(l.ts) AS first_ts, max(l.ts) AS last_ts, max(l.lost_at) AS last_at,
    (array_agg(l.reason ORDER BY l.lost_at DESC))[1] AS reason
FROM lost_verdicts l
JOIN deployments d ON d.rule = l.rule AND d.version = l.version AND d.state <> 'stopped'
WHERE %(since)s::timestamptz IS NULL OR l.lost_at >= %(since)s
GROUP BY l.rule ORDER BY count(*) DESC, l.rule
