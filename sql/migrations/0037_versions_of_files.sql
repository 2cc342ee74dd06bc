-- A file that was changed after it was read is read again.
ALTER TABLE units ADD COLUMN size bigint, ADD COLUMN modified bigint,
    ADD COLUMN readings integer NOT NULL DEFAULT 1;
