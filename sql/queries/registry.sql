-- desired --
-- The rules as applied.
SELECT rule, version, definition, applied_at FROM rules ORDER BY rule

-- put_rule --
-- A rule is wanted from now on.
INSERT INTO rules (rule, version, definition) VALUES (%(rule)s, %(version)s, %(definition)s)
ON CONFLICT (rule) DO UPDATE SET version = excluded.version, definition = excluded.definition,
    applied_at = clock_timestamp()

-- drop_rule --
-- A rule is no longer wanted.
DELETE FROM rules WHERE rule = %(rule)s

-- bump --
-- Tell the live process that desired rules have changed.
UPDATE rules_revision SET revision = revision + 1

-- lock --
-- One change of rules at a time.
SELECT revision FROM rules_revision FOR UPDATE

-- revision --
-- Which change of desired rules was the last.
SELECT revision FROM rules_revision

-- deployments --
-- What runs.
SELECT rule, version, (extract(epoch FROM settled_to) * 1000000)::bigint AS settled_to, state, failures, error,
    EXISTS (
        SELECT FROM rule_errors e WHERE e.rule = d.rule AND e.version = d.version AND e.kind IN ('time', 'memory')
            AND e.last_at > greatest(d.started_at, clock_timestamp() - interval '10 minutes')
    ) AS suspect
FROM deployments d WHERE state <> 'stopped' ORDER BY rule

-- start --
-- A version of a rule runs from an event time on. What it missed while it was stopped is its past.
INSERT INTO deployments AS d (rule, version, settled_to, state, live_from, corpus_from)
VALUES (%(rule)s, %(version)s, %(settled_to)s, 'running', %(settled_to)s,
    %(settled_to)s::timestamptz + make_interval(secs => %(begins)s))
ON CONFLICT (rule, version) DO UPDATE SET state = 'running', failures = 0, error = NULL, refused = false,
    stopped_at = NULL, settled_to = greatest(d.settled_to, excluded.settled_to), started_at = clock_timestamp(),
    live_from = greatest(d.settled_to, excluded.settled_to),
    corpus_from = greatest(d.settled_to, excluded.settled_to) + make_interval(secs => %(begins)s)

-- stop --
-- A version of a rule runs no more.
UPDATE deployments SET state = 'stopped', stopped_at = clock_timestamp() WHERE rule = %(rule)s AND version = %(version)s

-- settle --
-- Events of rules before an event time are settled.
UPDATE deployments d SET settled_to = %(settled_to)s,
    failures = CASE WHEN d.rule = ANY(%(failing)s::text[]) THEN failures ELSE 0 END,
    error = CASE WHEN d.rule = ANY(%(failing)s::text[]) THEN error END
FROM jsonb_each_text(%(versions)s) AS w(rule, version)
WHERE d.rule = w.rule AND d.version = w.version

-- fail --
-- A rule's query failed; after some failures in a row it is set aside.
UPDATE deployments SET failures = failures + 1, error = %(error)s,
    state = CASE WHEN failures + 1 >= %(most)s THEN 'quarantined' ELSE state END
WHERE rule = %(rule)s AND version = %(version)s RETURNING state

-- fell --
-- The process had to be stopped over a rule: the second time lately it is set aside.
UPDATE deployments d SET error = %(error)s, state = CASE WHEN EXISTS (
        SELECT FROM rule_errors e WHERE e.rule = d.rule AND e.version = d.version AND e.kind IN ('time', 'memory')
            AND e.last_at > greatest(d.started_at, clock_timestamp() - interval '10 minutes')
    ) THEN 'quarantined' ELSE state END
WHERE rule = %(rule)s AND version = %(version)s RETURNING state

-- note_error --
-- What a rule is charged with; the same again is counted.
INSERT INTO rule_errors (rule, version, kind, message, event, times)
VALUES (%(rule)s, %(version)s, %(kind)s, %(message)s, %(event)s, %(times)s)
ON CONFLICT (rule, version, kind, md5(message || coalesce(event::text, ''))) DO UPDATE
    SET times = rule_errors.times + excluded.times, last_at = clock_timestamp()

-- forget_errors --
-- Of each rule the newest errors are kept.
DELETE FROM rule_errors WHERE id IN
    (SELECT id FROM rule_errors WHERE rule = %(rule)s ORDER BY last_at DESC, id DESC OFFSET %(most)s)

-- errors --
-- What rules are charged with, or one rule.
SELECT rule, version, kind, message, event, times, first_at, last_at FROM rule_errors
WHERE %(rule)s::text IS NULL OR rule = %(rule)s ORDER BY last_at DESC, id DESC

-- resume --
-- Quarantines end.
UPDATE deployments SET state = 'running', failures = 0, error = NULL, refused = false, started_at = clock_timestamp()
WHERE rule = ANY(%(rules)s) AND state = 'quarantined' RETURNING rule

-- refuse --
-- A rule may not run. One that was quarantined for what it did stays so when it may.
UPDATE deployments SET state = 'quarantined', error = %(error)s, refused = refused OR state <> 'quarantined'
WHERE rule = %(rule)s AND version = %(version)s

-- lift --
-- Versions that were refused may run now.
UPDATE deployments d SET state = 'running', failures = 0, error = NULL, refused = false, started_at = clock_timestamp()
FROM unnest(%(rules)s::text[], %(versions)s::text[]) AS w(rule, version)
WHERE d.rule = w.rule AND d.version = w.version AND d.refused AND d.state = 'quarantined' RETURNING d.rule

-- end_alerts --
-- Open alerts of a rule that was taken away end with their last event.
UPDATE alerts SET ends_at = last_at, updated_at = clock_timestamp(),
    state = CASE WHEN settled IS NULL THEN 'withdrawn' WHEN fired_at IS NULL THEN 'pending' ELSE 'resolved' END
WHERE rule = %(rule)s AND ends_at IS NULL

-- forget_detected --
-- Detected events of a version that runs no more.
DELETE FROM events WHERE rule = %(rule)s AND version = %(version)s AND NOT settled

-- ask_reload --
-- Somebody wants the rule files looked at again; the number of the request.
UPDATE rule_files SET asked = asked + 1 RETURNING asked

-- rule_files --
-- What became of the rule files.
SELECT asked, answered, digest, looked_at, problems FROM rule_files

-- begin_look --
-- The rule files are about to be checked; how often the same ones were before, without an end.
UPDATE rule_files SET tries = CASE WHEN checking = %(digest)s THEN tries + 1 ELSE 1 END, checking = %(digest)s
RETURNING tries - 1

-- looked --
-- The rule files were looked at, on account of all requests up to a number.
UPDATE rule_files SET answered = greatest(answered, %(asked)s), digest = %(digest)s, problems = %(problems)s,
    looked_at = clock_timestamp(), checking = NULL, tries = 0
