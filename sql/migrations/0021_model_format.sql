-- Learned models have a format: those of another one are not used, and are built again.
ALTER TABLE learned_models ADD COLUMN format integer NOT NULL DEFAULT 1;
ALTER TABLE learned_models ALTER COLUMN format DROP DEFAULT;
