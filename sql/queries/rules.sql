-- list_all --
-- The desired rules, by name.
SELECT rule, version, definition, applied_at FROM rules ORDER BY rule

-- put --
-- Add a desired rule, or replace its version and definition.
INSERT INTO rules (rule, version, definition) VALUES (%(rule)s, %(version)s, %(definition)s)
ON CONFLICT (rule) DO UPDATE SET version = excluded.version, definition = excluded.definition,
    applied_at = clock_timestamp()

-- delete --
-- Remove a desired rule.
DELETE FROM rules WHERE rule = %(rule)s

-- raise_revision --
-- Tell the live process that desired rules have changed.
UPDATE rules_revision SET revision = revision + 1

-- lock_revision --
-- Block other changes of desired rules until the transaction ends.
SELECT revision FROM rules_revision FOR UPDATE

-- get_revision --
-- The number of changes of desired rules so far.
SELECT revision FROM rules_revision
