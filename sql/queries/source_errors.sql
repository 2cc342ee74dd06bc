-- list_all --
-- The streams whose topic cannot be read now.
SELECT stream, kind, error, since FROM source_errors ORDER BY stream

-- put --
-- Store why the topic of a stream cannot be read; the same kind of error keeps its start.
INSERT INTO source_errors (stream, kind, error) VALUES (%(stream)s, %(kind)s, %(error)s)
ON CONFLICT (stream) DO UPDATE SET kind = excluded.kind, error = excluded.error,
    since = CASE WHEN source_errors.kind = excluded.kind THEN source_errors.since
            ELSE clock_timestamp() END
WHERE (source_errors.kind, source_errors.error) <> (excluded.kind, excluded.error)

-- delete --
-- The topic of a stream can be read.
DELETE FROM source_errors WHERE stream = %(stream)s

-- delete_others --
-- Forget the errors of streams that read no topic any more.
DELETE FROM source_errors WHERE stream <> ALL(%(streams)s)
