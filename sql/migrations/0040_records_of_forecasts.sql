-- The forecasts of the measure `learned` as they were shown, which are compared with the tags of resolutions: whether
-- they are worse than plain frequencies, which are shown instead then.
CREATE TABLE shown_forecasts (
    rule     text NOT NULL,
    version  text NOT NULL,
    recall   text NOT NULL,
    eid      uuid NOT NULL,
    ts       timestamptz NOT NULL,
    shares   jsonb NOT NULL,
    shown_at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (rule, version, recall, eid)
);
CREATE INDEX shown_forecasts_by_time ON shown_forecasts (rule, version, recall, ts DESC);

CREATE TABLE forecast_records (
    rule               text NOT NULL,
    version            text NOT NULL,
    recall             text NOT NULL,
    episodes           integer NOT NULL,
    withheld_share     double precision,
    log_loss           double precision,
    frequency_log_loss double precision,
    excess             double precision,
    excess_low         double precision,
    excess_high        double precision,
    reason             text,
    worse_since        timestamptz,
    checked_at         timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (rule, version, recall)
);

CREATE OR REPLACE FUNCTION shown_forecast(task tasks, forecast jsonb) RETURNS jsonb LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN r.reason IS NULL OR (forecast->>'withheld')::boolean THEN forecast - 'frequencies'
        ELSE (forecast - 'frequencies') || coalesce(nullif(forecast->'frequencies', 'null'), '{"tags": [], "new_tag": null}')
            || jsonb_build_object('by', 'frequencies', 'reason', r.reason) END
    FROM (SELECT) present LEFT JOIN forecast_records r
        ON r.rule = task.rule AND r.version = task.version AND r.recall = task.recall
$$;

CREATE OR REPLACE FUNCTION shown_comparable(task tasks, forecast jsonb, comparable double precision)
RETURNS double precision LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN comparable IS NULL THEN NULL
        WHEN s.forecast->>'by' = 'frequencies' THEN 1 - (s.forecast->>'new_tag')::double precision
        ELSE comparable END
    FROM (SELECT shown_forecast(task, forecast) AS forecast) s
$$;
