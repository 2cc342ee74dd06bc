-- Files that grow are read in ranges of bytes, as the partitions of a topic are.
CREATE TABLE growing_files (
    number         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    stream         text NOT NULL,
    -- The name of the file when it was first seen: part of the names of its units.
    name           text NOT NULL,
    -- Where it was last seen.
    path           text NOT NULL,
    device         numeric NOT NULL,
    inode          numeric NOT NULL,
    -- The hash of its first bytes, and how many these are.
    head_length    bigint NOT NULL,
    head_hash      bytea NOT NULL,
    -- The hash of the last bytes before an offset to which it was read.
    checked_to     bigint NOT NULL,
    checked_hash   bytea NOT NULL
);
CREATE INDEX growing_files_stream ON growing_files (stream);
ALTER TABLE lost_records DROP CONSTRAINT lost_records_reason_check;
ALTER TABLE lost_records ADD CONSTRAINT lost_records_reason_check
    CHECK (reason IN ('deleted', 'recreated', 'truncated', 'removed'));
