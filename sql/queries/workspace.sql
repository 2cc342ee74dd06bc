-- get --
-- The identity of the workspace.
SELECT id, generation, restored_from, backed_up_at, restored_at FROM workspace

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
