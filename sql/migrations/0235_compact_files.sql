-- Data files of closed chunks store no identities, and no lines of units that are read: processes of
-- earlier versions cannot read them. Which units are not read is asked whenever files are rewritten.
CREATE INDEX units_unfinished ON units (stream) WHERE NOT done;
