-- list_all --
-- The growing files that a stream has read, oldest first.
SELECT number, name, path, device, inode, head_length, head_hash, checked_to, checked_hash
FROM growing_files WHERE stream = %(stream)s ORDER BY number

-- insert --
-- Store a growing file that was not seen before; its number.
INSERT INTO growing_files (stream, name, path, device, inode, head_length, head_hash, checked_to,
    checked_hash)
VALUES (%(stream)s, %(name)s, %(path)s, %(device)s, %(inode)s, %(head_length)s, %(head_hash)s,
    %(checked_to)s, %(checked_hash)s)
RETURNING number

-- update --
-- Store where a growing file was seen, and by what it is found again.
UPDATE growing_files SET path = %(path)s, device = %(device)s, inode = %(inode)s,
    head_length = %(head_length)s, head_hash = %(head_hash)s, checked_to = %(checked_to)s,
    checked_hash = %(checked_hash)s
WHERE number = %(number)s
