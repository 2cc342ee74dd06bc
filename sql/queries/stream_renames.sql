-- list_pending --
-- Streams that are being renamed.
SELECT name AS old, renamed_to AS new FROM streams WHERE renamed_to IS NOT NULL ORDER BY name

-- is_known --
-- Whether a stream was ever declared.
SELECT EXISTS (SELECT FROM streams WHERE name = %(name)s)

-- has_units --
-- Whether a stream has source units.
SELECT EXISTS (SELECT FROM units WHERE stream = %(name)s)

-- start --
-- Record that a stream is being renamed.
UPDATE streams SET renamed_to = %(new)s WHERE name = %(old)s

-- delete_stream --
-- Delete a stream that has no source units.
DELETE FROM streams WHERE name = %(name)s

-- rename_units --
UPDATE units SET stream = %(new)s WHERE stream = %(old)s

-- delete_topics --
-- Delete the topics of a stream that has no source units.
DELETE FROM topics WHERE stream = %(name)s

-- rename_topics --
UPDATE topics SET stream = %(new)s WHERE stream = %(old)s

-- rename_lost_records --
UPDATE lost_records SET stream = %(new)s WHERE stream = %(old)s

-- rename_lost_rows --
UPDATE lost_rows SET stream = %(new)s WHERE stream = %(old)s

-- rename_lost_verdicts --
UPDATE lost_verdicts SET stream = %(new)s WHERE stream = %(old)s

-- rename_source_errors --
DELETE FROM source_errors WHERE stream = %(old)s

-- rename_closed_keys --
UPDATE closed_keys SET stream = %(new)s WHERE stream = %(old)s

-- rename_growing_files --
UPDATE growing_files SET stream = %(new)s WHERE stream = %(old)s

-- rename_pushes --
UPDATE pushes SET stream = %(new)s WHERE stream = %(old)s

-- rename_set_aside --
UPDATE set_aside SET stream = %(new)s WHERE stream = %(old)s

-- rename_set_aside_streams --
UPDATE set_aside SET name = %(new)s WHERE kind IN ('stream', 'topic') AND name = %(old)s

-- rename_summaries --
DELETE FROM summaries WHERE stream = %(old)s

-- rename_stored_bytes --
-- They are measured anew under the new name.
DELETE FROM stored_bytes WHERE stream = %(old)s

-- rename_column_rewrites --
DELETE FROM column_rewrites WHERE stream = %(old)s

-- rename_unread_input --
DELETE FROM unread_input WHERE stream = %(old)s

-- rename_skipped_records --
UPDATE skipped_records SET stream = %(new)s WHERE stream = %(old)s

-- rename_tokens --
UPDATE tokens SET stream = %(new)s WHERE stream = %(old)s

-- rename_erased_rows --
UPDATE erased_rows SET stream = %(new)s WHERE stream = %(old)s

-- rename_in_erasures --
UPDATE erasures SET streams = array_replace(streams, %(old)s, %(new)s) WHERE %(old)s = ANY(streams)

-- rename_stream --
UPDATE streams SET name = %(new)s, renamed_to = NULL,
    previous_names = array_append(array_remove(previous_names, %(new)s), %(old)s)
WHERE name = %(old)s
