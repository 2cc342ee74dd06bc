-- list_all --
-- The lateness under which streams were last read.
SELECT name, lateness FROM streams WHERE lateness IS NOT NULL

-- put --
-- Store the lateness of a stream.
UPDATE streams SET lateness = %(lateness)s WHERE name = %(name)s
