-- put_shown --
-- Store what was shown about an event whose alert has no tagged resolution yet; it replaces what was shown before.
INSERT INTO shown_forecasts (rule, version, recall, eid, ts, shares)
SELECT %(rule)s, %(version)s, %(recall)s, %(eid)s, %(ts)s, %(shares)s
WHERE NOT EXISTS (
    SELECT FROM events e
    JOIN alerts a ON a.rule = e.rule AND a.fingerprint = e.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at
    JOIN remedies n ON n.alert_id = a.id AND n.tag IS NOT NULL
    WHERE e.rule = %(rule)s AND e.version = %(version)s AND e.eid = %(eid)s)
ON CONFLICT (rule, version, recall, eid) DO UPDATE SET shares = excluded.shares, shown_at = clock_timestamp()

-- list_resolved --
-- What was shown about events whose alert has a tagged resolution now, in (ts, eid) order, with the last tag.
-- `probability`, `frequency`: of the tag.
SELECT (extract(epoch FROM f.ts) * 1000000)::bigint AS ts, n.tag,
    (coalesce(f.shares->'tags'->n.tag, f.shares->'new_tag')->>0)::float8 AS probability,
    (coalesce(f.shares->'tags'->n.tag, f.shares->'new_tag')->>1)::float8 AS frequency,
    (f.shares->>'withheld')::boolean AS withheld
FROM shown_forecasts f
JOIN events e ON e.rule = f.rule AND e.version = f.version AND e.eid = f.eid
JOIN LATERAL (
    SELECT n.tag FROM alerts a JOIN remedies n ON n.alert_id = a.id
    WHERE a.rule = e.rule AND a.fingerprint = e.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at AND n.tag IS NOT NULL
    ORDER BY n.at DESC, n.id DESC LIMIT 1) n ON true
WHERE f.rule = %(rule)s AND f.version = %(version)s AND f.recall = %(recall)s
ORDER BY f.ts, f.eid

-- delete_oldest --
-- Delete what was shown about all but the newest events of a recall.
DELETE FROM shown_forecasts WHERE rule = %(rule)s AND version = %(version)s AND recall = %(recall)s AND ts < (
    SELECT min(ts) FROM (SELECT ts FROM shown_forecasts
        WHERE rule = %(rule)s AND version = %(version)s AND recall = %(recall)s ORDER BY ts DESC LIMIT %(keep)s) newest)

-- put_record --
-- Store how the forecasts of a recall have held.
INSERT INTO forecast_records (rule, version, recall, episodes, withheld_share, log_loss, frequency_log_loss, excess,
    excess_low, excess_high, reason, worse_since)
VALUES (%(rule)s, %(version)s, %(recall)s, %(episodes)s, %(withheld_share)s, %(log_loss)s, %(frequency_log_loss)s, %(excess)s,
    %(excess_low)s, %(excess_high)s, %(reason)s, CASE WHEN %(reason)s::text IS NOT NULL THEN clock_timestamp() END)
ON CONFLICT (rule, version, recall) DO UPDATE SET episodes = excluded.episodes, withheld_share = excluded.withheld_share,
    log_loss = excluded.log_loss, frequency_log_loss = excluded.frequency_log_loss, excess = excluded.excess,
    excess_low = excluded.excess_low, excess_high = excluded.excess_high, reason = excluded.reason,
    worse_since = CASE WHEN excluded.reason IS NOT NULL THEN coalesce(forecast_records.worse_since, excluded.worse_since) END,
    checked_at = clock_timestamp()

-- delete_other_records --
-- Delete the records of all but some recalls.
DELETE FROM forecast_records f WHERE NOT EXISTS (
    SELECT FROM unnest(%(rules)s::text[], %(versions)s::text[], %(recalls)s::text[]) AS kept (rule, version, recall)
    WHERE kept.rule = f.rule AND kept.version = f.version AND kept.recall = f.recall)

-- list_records --
-- How the forecasts of the recalls of deployed rules have held, by rule and recall.
SELECT rule, version, recall, episodes, withheld_share, log_loss, frequency_log_loss, excess, excess_low, excess_high, reason,
    worse_since, checked_at
FROM forecast_records f
WHERE EXISTS (SELECT FROM deployments d WHERE d.rule = f.rule AND d.version = f.version AND d.state <> 'stopped')
ORDER BY rule, recall, version

-- get_reason --
-- Why frequencies are shown instead of the forecasts of a recall; NULL: they are not.
SELECT reason FROM forecast_records WHERE rule = %(rule)s AND version = %(version)s AND recall = %(recall)s
