-- forget_alerts --
-- Alerts that were over before an event time, but for those that somebody wrote about, or whose recalls go on.
DELETE FROM alerts WHERE id IN (
    SELECT a.id FROM alerts a
    WHERE a.starts_at < %(before)s AND a.ends_at < %(before)s AND a.updated_at < clock_timestamp() - %(least)s::interval
      AND NOT EXISTS (SELECT FROM alert_notes n WHERE n.alert_id = a.id)
      AND NOT EXISTS (SELECT FROM judgements j WHERE j.eid = a.eid)
      AND NOT EXISTS (SELECT FROM judgements j WHERE j.past_eid = a.eid)
      AND NOT EXISTS (SELECT FROM tasks t WHERE t.eid = a.eid AND t.ended_at IS NULL)
    ORDER BY a.starts_at LIMIT %(limit)s)

-- forget_tasks --
-- Ended recalls about such events, with their revisions, that are of no alert which is kept.
DELETE FROM tasks WHERE id IN (
    SELECT t.id FROM tasks t
    WHERE (t.event->>'ts')::bigint < %(before_micros)s AND t.ended_at < clock_timestamp() - %(least)s::interval
      AND NOT EXISTS (SELECT FROM judgements j WHERE j.eid = t.eid)
      AND NOT EXISTS (SELECT FROM alerts a WHERE a.eid = t.eid)
      AND NOT EXISTS (SELECT FROM events e JOIN alerts a ON a.rule = e.rule AND a.version = e.version
            AND a.fingerprint = e.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at
        WHERE e.rule = t.rule AND e.version = t.version AND e.eid = t.eid)
    ORDER BY (t.event->>'ts')::bigint LIMIT %(limit)s)

-- forget_contexts --
-- Contexts of such events that the archive has, or that are of no corpus. Who follows the corpus by its numbers is told.
WITH gone AS (
    DELETE FROM contexts WHERE (rule, version, eid) IN (
        SELECT c.rule, c.version, c.eid FROM contexts c
        WHERE c.ts < %(before)s AND (c.corpus IS NULL OR c.corpus <= %(contexts)s)
          AND NOT EXISTS (SELECT FROM judgements j WHERE j.eid = c.eid)
          AND NOT EXISTS (SELECT FROM judgements j WHERE j.past_eid = c.eid)
          AND NOT EXISTS (SELECT FROM alerts a WHERE a.eid = c.eid)
          AND NOT EXISTS (SELECT FROM tasks t WHERE t.eid = c.eid AND t.rule = c.rule AND t.version = c.version)
          AND NOT EXISTS (SELECT FROM events e WHERE e.rule = c.rule AND e.version = c.version AND e.eid = c.eid
              AND e.at >= clock_timestamp() - %(least)s::interval)
        ORDER BY c.ts LIMIT %(limit)s)
    RETURNING corpus
), told AS (
    UPDATE corpus_forgotten SET number = greatest(number, (SELECT max(corpus) FROM gone)))
SELECT FROM gone

-- forget_events --
-- Such events that the archive has, when nothing else is about them.
DELETE FROM events WHERE (rule, version, eid) IN (
    SELECT e.rule, e.version, e.eid FROM events e
    WHERE e.ts < %(before)s AND e.settled AND e.seq <= %(events)s
      AND e.at < clock_timestamp() - %(least)s::interval
      AND NOT EXISTS (SELECT FROM judgements j WHERE j.eid = e.eid)
      AND NOT EXISTS (SELECT FROM judgements j WHERE j.past_eid = e.eid)
      AND NOT EXISTS (SELECT FROM alerts a WHERE a.eid = e.eid)
      AND NOT EXISTS (SELECT FROM tasks t WHERE t.eid = e.eid)
      AND NOT EXISTS (SELECT FROM contexts c WHERE c.rule = e.rule AND c.version = e.version AND c.eid = e.eid)
    ORDER BY e.ts LIMIT %(limit)s)

-- forget_relations --
-- Versions of relations' rows that another had replaced by then.
DELETE FROM relation_versions WHERE (relation, key, valid_from) IN (
    SELECT relation, key, valid_from FROM (
        SELECT relation, key, valid_from,
            lead(valid_from) OVER (PARTITION BY relation, key ORDER BY valid_from) AS valid_to
        FROM relation_versions WHERE valid_from < %(before)s) v
    WHERE valid_to <= %(before)s LIMIT %(limit)s)

-- forget_views --
-- Views of chunks that have left, and of versions that have not run for long: what was found stays.
DELETE FROM views v WHERE v.chunk <= %(chunk)s OR EXISTS (
    SELECT FROM deployments d WHERE d.rule = v.rule AND d.version = v.version AND d.state = 'stopped'
        AND d.stopped_at < clock_timestamp() - %(old)s::interval)

-- forget_calibrations --
-- What was learned for versions that have not run for long.
DELETE FROM calibrations k WHERE EXISTS (
    SELECT FROM deployments d WHERE d.rule = k.rule AND d.version = k.version AND d.state = 'stopped'
        AND d.stopped_at < clock_timestamp() - %(old)s::interval)

-- forget_deployments --
-- Versions that have not run for long, and of which nothing is left.
DELETE FROM deployments d WHERE d.state = 'stopped' AND d.stopped_at < clock_timestamp() - %(old)s::interval
    AND NOT EXISTS (SELECT FROM events e WHERE e.rule = d.rule AND e.version = d.version)
    AND NOT EXISTS (SELECT FROM alerts a WHERE a.rule = d.rule AND a.version = d.version)
    AND NOT EXISTS (SELECT FROM contexts c WHERE c.rule = d.rule AND c.version = d.version)
    AND NOT EXISTS (SELECT FROM tasks t WHERE t.rule = d.rule AND t.version = d.version)
    AND NOT EXISTS (SELECT FROM views v WHERE v.rule = d.rule AND v.version = d.version)

-- forget_commands --
-- Commands of long ago: their keys are free again.
DELETE FROM commands WHERE id IN (
    SELECT id FROM commands WHERE done_at < clock_timestamp() - %(keep)s::interval ORDER BY id LIMIT %(limit)s)

-- oldest_derived --
-- The oldest chunk that something of a derived stream is archived of.
SELECT min(chunk) FROM derived_chunks
