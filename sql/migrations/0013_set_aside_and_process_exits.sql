-- Files, streams, relations, rules and topics that cannot be read; ends of processes; unread input.
CREATE TABLE set_aside (
    kind            text NOT NULL CHECK (kind IN ('file', 'stream', 'relation', 'rule', 'topic')),
    stream          text NOT NULL,
    name            text NOT NULL,
    reason          text NOT NULL,
    fingerprint     text NOT NULL,
    tries           integer NOT NULL,
    first_failed_at timestamptz NOT NULL,
    last_failed_at  timestamptz NOT NULL,
    set_aside_at    timestamptz,
    retry_requested boolean NOT NULL DEFAULT false,
    PRIMARY KEY (kind, stream, name)
);

CREATE TABLE process_exits (
    id         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    role       text NOT NULL,
    epoch      bigint,
    pid        integer NOT NULL,
    started_at timestamptz NOT NULL,
    ended_at   timestamptz NOT NULL,
    exit_code  integer,
    signal     integer,
    error      text,
    UNIQUE (role, epoch)
);

CREATE TABLE unread_input (
    stream     text PRIMARY KEY,
    oldest_at  timestamptz,
    checked_at timestamptz NOT NULL
);
