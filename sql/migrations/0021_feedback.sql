-- Each person may judge a pair of events: a judgement no longer replaces another person's.
ALTER TABLE judgements DROP CONSTRAINT judgements_pkey;
ALTER TABLE judgements ADD PRIMARY KEY (eid, past_eid, author);

-- Learned models have a format: those of another one are not used, and are built again.
ALTER TABLE learned_models ADD COLUMN format integer NOT NULL DEFAULT 1;
ALTER TABLE learned_models ALTER COLUMN format DROP DEFAULT;
