-- list_active --
-- Versions that run or are quarantined, by rule. A suspect is a rule over which the process crashed
-- in the last ten minutes, since the rule was started.
SELECT rule, version, (extract(epoch FROM settled_to) * 1000000)::bigint AS settled_to, state, failures, error,
    losing_since, EXISTS (
        SELECT FROM rule_errors e WHERE e.rule = d.rule AND e.version = d.version AND e.kind IN ('time', 'memory')
            AND e.last_at > greatest(d.started_at, clock_timestamp() - interval '10 minutes')
    ) AS suspect
FROM deployments d WHERE state <> 'stopped' ORDER BY rule

-- list_with_past --
-- Running versions with a past. Before `live_from` their events come from history; before
-- `corpus_from` history also decides which events enter the corpus.
SELECT rule, version, (extract(epoch FROM live_from) * 1000000)::bigint AS live_from,
    (extract(epoch FROM corpus_from) * 1000000)::bigint AS corpus_from
FROM deployments WHERE state = 'running' AND corpus_from IS NOT NULL

-- start --
-- Run a version from an event time on. What it missed while it was stopped becomes its past.
INSERT INTO deployments AS d (rule, version, settled_to, state, live_from, corpus_from)
VALUES (%(rule)s, %(version)s, %(settled_to)s, 'running', %(settled_to)s,
    %(settled_to)s::timestamptz + make_interval(secs => %(undecided_seconds)s))
ON CONFLICT (rule, version) DO UPDATE SET state = 'running', failures = 0, error = NULL, refused = false,
    stopped_at = NULL, losing_since = NULL, settled_to = greatest(d.settled_to, excluded.settled_to), started_at = clock_timestamp(),
    live_from = greatest(d.settled_to, excluded.settled_to),
    corpus_from = greatest(d.settled_to, excluded.settled_to) + make_interval(secs => %(undecided_seconds)s)

-- stop --
-- Stop a version.
UPDATE deployments SET state = 'stopped', stopped_at = clock_timestamp() WHERE rule = %(rule)s AND version = %(version)s

-- settle --
-- Record up to which event time rules are settled, and clear the errors of those that did not fail.
UPDATE deployments d SET settled_to = %(settled_to)s,
    failures = CASE WHEN d.rule = ANY(%(failing)s::text[]) THEN failures ELSE 0 END,
    error = CASE WHEN d.rule = ANY(%(failing)s::text[]) THEN error END
FROM jsonb_each_text(%(versions)s) AS settled(rule, version)
WHERE d.rule = settled.rule AND d.version = settled.version

-- record_failure --
-- Count a failure of a rule; quarantine it after some failures in a row.
UPDATE deployments SET failures = failures + 1, error = %(error)s,
    state = CASE WHEN failures + 1 >= %(max_failures)s THEN 'quarantined' ELSE state END
WHERE rule = %(rule)s AND version = %(version)s RETURNING state

-- record_crash --
-- Record that the process ended over a rule; quarantine a suspect (see `list_active`).
UPDATE deployments d SET error = %(error)s, state = CASE WHEN EXISTS (
        SELECT FROM rule_errors e WHERE e.rule = d.rule AND e.version = d.version AND e.kind IN ('time', 'memory')
            AND e.last_at > greatest(d.started_at, clock_timestamp() - interval '10 minutes')
    ) THEN 'quarantined' ELSE state END
WHERE rule = %(rule)s AND version = %(version)s RETURNING state

-- quarantine_losing --
-- Quarantine rules that lost too many verdicts.
UPDATE deployments SET state = 'quarantined', error = %(error)s, losing_since = clock_timestamp()
WHERE rule = %(rule)s AND version = %(version)s AND state = 'running'

-- list_losing --
-- Rules in quarantine because they lost too many verdicts.
SELECT rule, losing_since, error FROM deployments
WHERE state = 'quarantined' AND losing_since IS NOT NULL ORDER BY rule

-- resume --
-- End the quarantine of rules.
UPDATE deployments SET state = 'running', failures = 0, error = NULL, refused = false,
    losing_since = NULL, started_at = clock_timestamp()
WHERE rule = ANY(%(rules)s) AND state = 'quarantined' RETURNING rule

-- refuse --
-- Quarantine a version that was not admitted. `refused` stays false if it was quarantined before, so
-- that admission does not end that quarantine.
UPDATE deployments SET state = 'quarantined', error = %(error)s, refused = refused OR state <> 'quarantined'
WHERE rule = %(rule)s AND version = %(version)s

-- admit --
-- End the quarantine of refused versions.
UPDATE deployments d SET state = 'running', failures = 0, error = NULL, refused = false,
    losing_since = NULL, started_at = clock_timestamp()
FROM unnest(%(rules)s::text[], %(versions)s::text[]) AS admitted(rule, version)
WHERE d.rule = admitted.rule AND d.version = admitted.version AND d.refused AND d.state = 'quarantined' RETURNING d.rule

-- end_alerts --
-- End the open alerts of a removed rule at their last event.
UPDATE alerts SET ends_at = last_at, updated_at = clock_timestamp(),
    state = CASE WHEN settled IS NULL THEN 'withdrawn' WHEN fired_at IS NULL THEN 'pending' ELSE 'resolved' END
WHERE rule = %(rule)s AND ends_at IS NULL

-- delete_detected_events --
-- Delete the events of a stopped version that are not settled.
DELETE FROM events WHERE rule = %(rule)s AND version = %(version)s AND NOT settled
