-- Rows that the rule index evaluated with a rule, and those that matched, in ten minutes each.
CREATE TABLE rule_candidates (
    rule       text NOT NULL,
    since      timestamptz NOT NULL,
    candidates bigint NOT NULL,
    matches    bigint NOT NULL,
    PRIMARY KEY (rule, since)
);
