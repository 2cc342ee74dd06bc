-- The time that the evaluation of a rule took in ten minutes, if it is noticeable.
ALTER TABLE rule_candidates ADD COLUMN seconds double precision NOT NULL DEFAULT 0;
