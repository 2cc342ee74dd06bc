-- The names that streams had before, under which recalls requested then read them.
ALTER TABLE streams ADD COLUMN previous_names text[] NOT NULL DEFAULT '{}';
