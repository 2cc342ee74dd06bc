-- try_lock --
-- Become the process that computes summaries, unless another session is.
SELECT pg_try_advisory_lock(hashtext('moirae summaries'))

-- list_all --
-- All summaries, and what they have cost and saved.
SELECT key, stream, definition, bytes, chunks, rows, groups, asked, build_seconds, read_seconds, lookup_seconds, loss
FROM summaries ORDER BY stream, key

-- put --
-- Record what a summary has cost so far; `asked` is added to what other processes have counted.
INSERT INTO summaries AS s (key, stream, definition, bytes, chunks, rows, groups, asked, build_seconds, read_seconds,
    lookup_seconds, loss)
VALUES (%(key)s, %(stream)s, %(definition)s, %(bytes)s, %(chunks)s, %(rows)s, %(groups)s, %(asked)s,
    %(build_seconds)s, %(read_seconds)s, %(lookup_seconds)s, %(loss)s)
ON CONFLICT (key) DO UPDATE SET bytes = excluded.bytes, chunks = excluded.chunks, rows = excluded.rows,
    groups = excluded.groups, asked = s.asked + excluded.asked, build_seconds = excluded.build_seconds,
    read_seconds = excluded.read_seconds, lookup_seconds = excluded.lookup_seconds, loss = excluded.loss,
    updated_at = clock_timestamp()

-- delete_others --
-- Forget the summaries that are not kept any more.
DELETE FROM summaries WHERE key <> ALL(%(keys)s)
