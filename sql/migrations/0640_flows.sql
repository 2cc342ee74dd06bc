-- What streams, rules, contexts, recalls and revision streams have processed, in half a minute each.
CREATE TABLE flows (
    kind    text NOT NULL CHECK (kind IN ('stream', 'rule', 'context', 'recall', 'revisions')),
    name    text NOT NULL,
    since   timestamptz NOT NULL,
    rows    bigint NOT NULL DEFAULT 0,
    results bigint NOT NULL DEFAULT 0,
    seconds double precision NOT NULL DEFAULT 0,
    bytes   bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (kind, name, since)
);
