CREATE TABLE forecast (
    job_name TEXT NOT NULL,
    origin TEXT NOT NULL,
    kind TEXT NOT NULL,
    operator_key TEXT NOT NULL,
    query_shape TEXT,
    title TEXT,
    current DOUBLE PRECISION NOT NULL,
    limit_value DOUBLE PRECISION NOT NULL,
    days BIGINT NOT NULL,
    growth_a_day DOUBLE PRECISION NOT NULL,
    reaches_at TIMESTAMP WITH TIME ZONE NOT NULL,
    earliest_at TIMESTAMP WITH TIME ZONE NOT NULL,
    latest_at TIMESTAMP WITH TIME ZONE,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    application_id TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    execution_id BIGINT NOT NULL,
    node_id INTEGER NOT NULL,
    first_forecast_at TIMESTAMP WITH TIME ZONE NOT NULL,
    computed_at TIMESTAMP WITH TIME ZONE NOT NULL,
    CONSTRAINT pk_forecast PRIMARY KEY (job_name, origin, kind, operator_key),
    CONSTRAINT ck_forecast_kind CHECK (kind IN ('broadcast_threshold', 'broadcast_limit', 'join_spill', 'shuffle_partitions'))
);
COMMENT ON TABLE forecast IS 'A number of an operator that grows and will reach a limit (docs/alerts.md#forecasts), written by collectors.';
COMMENT ON COLUMN forecast.job_name IS 'the job';
COMMENT ON COLUMN forecast.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN forecast.kind IS 'broadcast_threshold: no longer small enough to be broadcast; broadcast_limit: more than Spark can broadcast, so that the query fails; join_spill: a task of the join''s stage needs more memory than it has; shuffle_partitions: more than 2,000, from where on AQE knows only averages of their sizes';
COMMENT ON COLUMN forecast.operator_key IS 'the broadcast, join or shuffle';
COMMENT ON COLUMN forecast.query_shape IS 'the query of its latest run';
COMMENT ON COLUMN forecast.title IS 'its title';
COMMENT ON COLUMN forecast.current IS 'the number in its latest run: bytes, or partitions';
COMMENT ON COLUMN forecast.limit_value IS 'the limit, in the same unit';
COMMENT ON COLUMN forecast.days IS 'days with runs from which it is known';
COMMENT ON COLUMN forecast.growth_a_day IS 'by how much it grows a day, as a share: 0.02 is 2 %';
COMMENT ON COLUMN forecast.reaches_at IS 'when it reaches the limit, if it grows as before';
COMMENT ON COLUMN forecast.earliest_at IS 'the beginning of the interval';
COMMENT ON COLUMN forecast.latest_at IS 'its end; NULL: more than half a year away';
COMMENT ON COLUMN forecast.started_at IS 'key of the latest run';
COMMENT ON COLUMN forecast.application_id IS 'the same';
COMMENT ON COLUMN forecast.attempt_id IS 'the same';
COMMENT ON COLUMN forecast.execution_id IS 'the same';
COMMENT ON COLUMN forecast.node_id IS 'node of its final plan';
COMMENT ON COLUMN forecast.first_forecast_at IS 'when it was forecast first';
COMMENT ON COLUMN forecast.computed_at IS 'when it was forecast last; older than the newest of all rows: no more';

