-- get --
-- The identity of the workspace.
SELECT id, generation, restored_from, backed_up_at, restored_at FROM workspace

-- get_clock --
-- The clock of the database, in Unix seconds.
SELECT extract(epoch FROM clock_timestamp())::double precision AS clock

-- get_shared_values --
-- The values with which the processes of all machines start, as hashes by key; NULL: none started yet.
SELECT shared_values FROM workspace

-- put_shared_values --
-- Other values are the reference from now on.
UPDATE workspace SET shared_values = %(shared_values)s

-- begin_generation --
-- The workspace was restored: it begins a generation.
UPDATE workspace SET generation = %(generation)s, restored_from = %(backup)s,
    backed_up_at = %(backed_up_at)s, restored_at = clock_timestamp()

-- retire_processes --
-- No process of an earlier generation has the epoch of a role: it must not write any more.
UPDATE processes SET epoch = epoch + %(step)s, state = 'ended', error = NULL, failed_at = NULL

-- forget_exits --
-- Exits of processes of another machine say nothing about this one.
DELETE FROM process_exits
