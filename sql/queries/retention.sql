-- delete_alerts --
-- Delete alerts that ended before an event time, except those with notes, judgements or open tasks.
DELETE FROM alerts WHERE id IN (
    SELECT a.id FROM alerts a
    WHERE a.starts_at < %(before)s AND a.ends_at < %(before)s
      AND a.updated_at < clock_timestamp() - %(min_age)s::interval
      AND NOT EXISTS (SELECT FROM alert_notes n WHERE n.alert_id = a.id)
      AND NOT EXISTS (SELECT FROM judgements j WHERE j.eid = a.eid)
      AND NOT EXISTS (SELECT FROM judgements j WHERE j.past_eid = a.eid)
      AND NOT EXISTS (SELECT FROM tasks t WHERE t.eid = a.eid AND t.ended_at IS NULL)
    ORDER BY a.starts_at LIMIT %(limit)s)

-- delete_old_alerts --
-- Delete alerts that ended before an event time with their notes, answers and judgements and messages about them
-- only, except those with open tasks.
WITH old AS (
    SELECT a.id, a.eid, a.rule, a.version, e.events FROM alerts a
    CROSS JOIN LATERAL (
        SELECT array_agg(e.eid) || a.eid AS events FROM events e WHERE e.rule = a.rule AND e.version = a.version
            AND e.fingerprint = a.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at) e
    WHERE a.starts_at < %(before)s AND a.ends_at < %(before)s
      AND a.updated_at < clock_timestamp() - %(min_age)s::interval
      AND NOT EXISTS (SELECT FROM tasks t WHERE t.eid = ANY(e.events) AND t.rule = a.rule AND t.version = a.version
          AND t.ended_at IS NULL)
    ORDER BY a.starts_at LIMIT %(limit)s
), messages AS (
    DELETE FROM notifications n WHERE n.state <> 'pending'
        AND n.id IN (SELECT m.notification FROM notification_alerts m JOIN old o ON o.id = m.alert_id)
        AND NOT EXISTS (SELECT FROM notification_alerts m JOIN alerts a ON a.id = m.alert_id
            WHERE m.notification = n.id AND a.id NOT IN (SELECT id FROM old))
), opinions AS (
    DELETE FROM judgements j USING old o WHERE j.eid = ANY(o.events)
), answers AS (
    DELETE FROM tasks t USING old o WHERE t.eid = ANY(o.events) AND t.rule = o.rule AND t.version = o.version
)
DELETE FROM alerts a USING old o WHERE a.id = o.id

-- delete_incidents --
-- Incidents whose alerts have all been deleted, some time ago.
DELETE FROM incidents i WHERE i.created_at < clock_timestamp() - %(min_age)s::interval AND i.state <> 'merged'
    AND NOT EXISTS (SELECT FROM incident_alerts m WHERE m.incident = i.id)

-- delete_merged_incidents --
-- Incidents that were merged into ones that are gone.
DELETE FROM incidents i WHERE i.state = 'merged' AND NOT EXISTS (SELECT FROM incidents n WHERE n.id = i.merged_into)

-- delete_tasks --
-- Delete ended tasks of events before an event time, with their revisions, except those of an alert
-- or with judgements.
DELETE FROM tasks WHERE id IN (
    SELECT t.id FROM tasks t
    WHERE (t.event->>'ts')::bigint < %(before_micros)s
      AND t.ended_at < clock_timestamp() - %(min_age)s::interval
      AND NOT EXISTS (SELECT FROM judgements j WHERE j.eid = t.eid)
      AND NOT EXISTS (SELECT FROM alerts a WHERE a.eid = t.eid)
      AND NOT EXISTS (SELECT FROM events e JOIN alerts a ON a.rule = e.rule AND a.version = e.version
            AND a.fingerprint = e.fingerprint AND e.ts BETWEEN a.starts_at AND a.last_at
        WHERE e.rule = t.rule AND e.version = t.version AND e.eid = t.eid)
    ORDER BY (t.event->>'ts')::bigint LIMIT %(limit)s)

-- delete_recalled_events --
-- Delete ended events before an event time that have no tasks any more, with their archived revisions.
WITH gone AS (
    DELETE FROM recalled_events WHERE (rule, version, eid) IN (
        SELECT r.rule, r.version, r.eid FROM recalled_events r
        WHERE r.ts < %(before)s AND r.ended_at < clock_timestamp() - %(min_age)s::interval
          AND NOT EXISTS (SELECT FROM tasks t WHERE t.rule = r.rule AND t.version = r.version AND t.eid = r.eid)
          AND NOT EXISTS (SELECT FROM row_revisions v JOIN revision_streams s ON s.id = v.stream
              WHERE s.rule = r.rule AND v.eid = r.eid AND v.version = r.version AND v.seq > s.archived)
        ORDER BY r.ts LIMIT %(limit)s)
    RETURNING rule, version, eid
), revisions_gone AS (
    DELETE FROM row_revisions v USING gone g, revision_streams s
    WHERE s.rule = g.rule AND v.stream = s.id AND v.eid = g.eid AND v.version = g.version)
SELECT FROM gone

-- delete_contexts --
-- Delete contexts of events before an event time that are archived or in no corpus, and record the
-- highest deleted corpus number: readers of the corpus then continue with the archive.
WITH deleted AS (
    DELETE FROM contexts WHERE (rule, version, eid) IN (
        SELECT c.rule, c.version, c.eid FROM contexts c
        WHERE c.ts < %(before)s AND (c.corpus IS NULL OR c.corpus <= %(archived_to)s)
          AND NOT EXISTS (SELECT FROM judgements j WHERE j.eid = c.eid)
          AND NOT EXISTS (SELECT FROM judgements j WHERE j.past_eid = c.eid)
          AND NOT EXISTS (SELECT FROM alerts a WHERE a.eid = c.eid)
          AND NOT EXISTS (SELECT FROM tasks t
              WHERE t.eid = c.eid AND t.rule = c.rule AND t.version = c.version)
          AND NOT EXISTS (SELECT FROM events e
              WHERE e.rule = c.rule AND e.version = c.version AND e.eid = c.eid
                AND e.at >= clock_timestamp() - %(min_age)s::interval)
        ORDER BY c.ts LIMIT %(limit)s)
    RETURNING corpus
), recorded AS (
    UPDATE corpus_forgotten SET number = greatest(number, (SELECT max(corpus) FROM deleted)))
SELECT FROM deleted

-- delete_events --
-- Delete archived events before an event time that no other row refers to.
DELETE FROM events WHERE (rule, version, eid) IN (
    SELECT e.rule, e.version, e.eid FROM events e
    WHERE e.ts < %(before)s AND e.settled AND e.seq <= %(archived_to)s
      AND e.at < clock_timestamp() - %(min_age)s::interval
      AND NOT EXISTS (SELECT FROM judgements j WHERE j.eid = e.eid)
      AND NOT EXISTS (SELECT FROM judgements j WHERE j.past_eid = e.eid)
      AND NOT EXISTS (SELECT FROM alerts a WHERE a.eid = e.eid)
      AND NOT EXISTS (SELECT FROM tasks t WHERE t.eid = e.eid)
      AND NOT EXISTS (SELECT FROM contexts c
          WHERE c.rule = e.rule AND c.version = e.version AND c.eid = e.eid)
    ORDER BY e.ts LIMIT %(limit)s)

-- delete_relation_versions --
-- Delete versions of rows of relations that were replaced before an event time.
DELETE FROM relation_versions WHERE (relation, key, valid_from) IN (
    SELECT relation, key, valid_from FROM (
        SELECT relation, key, valid_from,
            lead(valid_from) OVER (PARTITION BY relation, key ORDER BY valid_from) AS valid_to
        FROM relation_versions WHERE valid_from < %(before)s) v
    WHERE valid_to <= %(before)s LIMIT %(limit)s)

-- delete_views --
-- Delete views of deleted chunks and of rule versions stopped long ago; their events remain.
DELETE FROM views v WHERE v.chunk <= %(chunk)s OR EXISTS (
    SELECT FROM deployments d WHERE d.rule = v.rule AND d.version = v.version
        AND d.state = 'stopped' AND d.stopped_at < clock_timestamp() - %(min_age)s::interval)

-- delete_calibrations --
-- Delete calibrations of rule versions stopped long ago.
DELETE FROM calibrations k WHERE EXISTS (
    SELECT FROM deployments d WHERE d.rule = k.rule AND d.version = k.version
        AND d.state = 'stopped' AND d.stopped_at < clock_timestamp() - %(min_age)s::interval)

-- delete_learned_models --
-- Delete models that answers named, but no task names any more or were built long ago; the newest of a deployed rule
-- remains.
DELETE FROM learned_models m
WHERE m.built_at < clock_timestamp() - %(keep)s::interval
    AND (EXISTS (SELECT FROM learned_models n
            WHERE n.rule = m.rule AND n.version = m.version AND n.recall = m.recall AND n.id > m.id)
        OR EXISTS (SELECT FROM deployments d WHERE d.rule = m.rule AND d.version = m.version
            AND d.state = 'stopped' AND d.stopped_at < clock_timestamp() - %(min_age)s::interval))

-- delete_deployments --
-- Delete rule versions stopped long ago that no other row refers to.
DELETE FROM deployments d
WHERE d.state = 'stopped' AND d.stopped_at < clock_timestamp() - %(min_age)s::interval
    AND NOT EXISTS (SELECT FROM events e WHERE e.rule = d.rule AND e.version = d.version)
    AND NOT EXISTS (SELECT FROM alerts a WHERE a.rule = d.rule AND a.version = d.version)
    AND NOT EXISTS (SELECT FROM contexts c WHERE c.rule = d.rule AND c.version = d.version)
    AND NOT EXISTS (SELECT FROM tasks t WHERE t.rule = d.rule AND t.version = d.version)
    AND NOT EXISTS (SELECT FROM views v WHERE v.rule = d.rule AND v.version = d.version)

-- delete_commands --
-- Delete commands executed long ago: their keys may be used again.
DELETE FROM commands WHERE id IN (
    SELECT id FROM commands WHERE done_at < clock_timestamp() - %(min_age)s::interval
    ORDER BY id LIMIT %(limit)s)

-- delete_changes --
-- Delete old changes: live clients cannot resume after them any more. The newest of them stays: it tells that clients
-- which have got it, and no later one was made, have missed nothing.
DELETE FROM changes WHERE (xid, id) IN (
    SELECT xid, id FROM changes WHERE at < clock_timestamp() - %(min_age)s::interval AND (xid, id) < (
        SELECT xid, id FROM changes WHERE at < clock_timestamp() - %(min_age)s::interval ORDER BY xid DESC, id DESC LIMIT 1)
    ORDER BY xid, id LIMIT %(limit)s)

-- delete_audit --
-- Delete old lines of the audit log.
DELETE FROM audit WHERE id IN (
    SELECT id FROM audit WHERE at < clock_timestamp() - %(min_age)s::interval ORDER BY id LIMIT %(limit)s)

-- find_oldest_derived_chunk --
-- The oldest chunk with an archived derived stream.
SELECT min(chunk) FROM derived_chunks
