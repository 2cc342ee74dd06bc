"""A column of each type that event queries in both engines may name."""

PLAIN_COLUMNS = {
    "ts": "timestamp",
    "host": "string",
    "v": "double",
    "n": "bigint",
    "i": "int",
    "ok": "boolean",
}
