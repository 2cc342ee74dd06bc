-- Records of protocols that are no rows: see `sql/schema.sql`.
CREATE TABLE skipped_records (
    stream  text NOT NULL,
    reason  text NOT NULL,
    records bigint NOT NULL,
    PRIMARY KEY (stream, reason)
);
