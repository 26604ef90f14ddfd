CREATE TABLE watched_query (
    job_name TEXT NOT NULL,
    query_shape TEXT NOT NULL,
    origin TEXT NOT NULL,
    title TEXT,
    seen_until TIMESTAMP WITH TIME ZONE NOT NULL,
    edited_at TIMESTAMP WITH TIME ZONE,
    hours INTEGER[] NOT NULL,
    durations_ms INTEGER[] NOT NULL,
    ended_hours INTEGER[] NOT NULL,
    outcomes INTEGER[] NOT NULL,
    slower_weeks DOUBLE PRECISION[] NOT NULL,
    failed_weeks DOUBLE PRECISION[] NOT NULL,
    cancelled_weeks DOUBLE PRECISION[] NOT NULL,
    CONSTRAINT pk_watched_query PRIMARY KEY (job_name, query_shape, origin)
);
COMMENT ON TABLE watched_query IS 'The last runs of a query in a job, and the evidence that they have changed, written by collectors.';
COMMENT ON COLUMN watched_query.job_name IS 'the job';
COMMENT ON COLUMN watched_query.query_shape IS 'the query';
COMMENT ON COLUMN watched_query.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN watched_query.title IS 'the title of a recent run';
COMMENT ON COLUMN watched_query.seen_until IS 'runs that started before this are in it';
COMMENT ON COLUMN watched_query.edited_at IS 'since when it is the query: the runs before were those of another shape with the same title; NULL: all along';
COMMENT ON COLUMN watched_query.hours IS 'hours since 1970 in which successful runs started; the last 91 of them';
COMMENT ON COLUMN watched_query.durations_ms IS 'the median duration of these runs by hour, milliseconds';
COMMENT ON COLUMN watched_query.ended_hours IS 'hours since 1970 in which runs started that have ended; the last 60 of them';
COMMENT ON COLUMN watched_query.outcomes IS 'how at least half of these runs ended by hour: 1 failed or lost, 2 cancelled, 0 otherwise';
COMMENT ON COLUMN watched_query.slower_weeks IS 'evidence that it became slower, by size of the change (docs/regressions.md)';
COMMENT ON COLUMN watched_query.failed_weeks IS 'evidence that it fails more often';
COMMENT ON COLUMN watched_query.cancelled_weeks IS 'evidence that it is cancelled more often';

CREATE TABLE alarm (
    job_name TEXT NOT NULL,
    query_shape TEXT NOT NULL,
    origin TEXT NOT NULL,
    measure TEXT NOT NULL,
    raised_at TIMESTAMP WITH TIME ZONE NOT NULL,
    title TEXT,
    since TIMESTAMP WITH TIME ZONE NOT NULL,
    before DOUBLE PRECISION NOT NULL,
    after DOUBLE PRECISION NOT NULL,
    runs BIGINT NOT NULL,
    evidence_weeks DOUBLE PRECISION NOT NULL,
    kind TEXT NOT NULL,
    closed_at TIMESTAMP WITH TIME ZONE,
    outcome TEXT,
    baseline_started_at TIMESTAMP WITH TIME ZONE,
    baseline_application_id TEXT,
    baseline_attempt_id TEXT,
    baseline_execution_id BIGINT,
    started_at TIMESTAMP WITH TIME ZONE,
    application_id TEXT,
    attempt_id TEXT,
    execution_id BIGINT,
    causes JSONB,
    CONSTRAINT pk_alarm PRIMARY KEY (job_name, query_shape, origin, measure, raised_at),
    CONSTRAINT ck_alarm_measure CHECK (measure IN ('duration_ms', 'failed', 'cancelled'))
);
COMMENT ON TABLE alarm IS 'A certain regression (docs/regressions.md#certain-regressions), written by collectors.';
COMMENT ON COLUMN alarm.job_name IS 'the job';
COMMENT ON COLUMN alarm.query_shape IS 'the query';
COMMENT ON COLUMN alarm.origin IS 'live (listener) or event_log (backfill)';
COMMENT ON COLUMN alarm.measure IS 'what got worse: duration_ms, or how often it failed or was cancelled';
COMMENT ON COLUMN alarm.raised_at IS 'when it became certain: after the last run that it took';
COMMENT ON COLUMN alarm.title IS 'the title of a recent run';
COMMENT ON COLUMN alarm.since IS 'start of the hour of the first run since the change';
COMMENT ON COLUMN alarm.before IS 'median duration before, milliseconds; share of runs that failed or were cancelled';
COMMENT ON COLUMN alarm.after IS 'the same since the change';
COMMENT ON COLUMN alarm.runs IS 'hours with runs between the change and the alarm';
COMMENT ON COLUMN alarm.evidence_weeks IS 'weeks of watching in which this much evidence is expected once without a change';
COMMENT ON COLUMN alarm.kind IS 'plan_changed, data_grew or same_plan, by a typical run before and one since; edited: the shape is new; failing';
COMMENT ON COLUMN alarm.closed_at IS 'when it was over; NULL: it is not';
COMMENT ON COLUMN alarm.outcome IS 'recovered; accepted: it was so for 4 weeks; edited: it has another shape; gone: it ran no more; NULL: open';
COMMENT ON COLUMN alarm.baseline_started_at IS 'key of a typical run before; NULL: there is none';
COMMENT ON COLUMN alarm.baseline_application_id IS 'the same';
COMMENT ON COLUMN alarm.baseline_attempt_id IS 'the same';
COMMENT ON COLUMN alarm.baseline_execution_id IS 'the same';
COMMENT ON COLUMN alarm.started_at IS 'key of a typical run since the change; NULL: there is none';
COMMENT ON COLUMN alarm.application_id IS 'the same';
COMMENT ON COLUMN alarm.attempt_id IS 'the same';
COMMENT ON COLUMN alarm.execution_id IS 'the same';
COMMENT ON COLUMN alarm.causes IS 'the first causes of joinsight why for these two; NULL: not divided';
CREATE UNIQUE INDEX ix_alarm_open ON alarm (job_name, query_shape, origin, measure) WHERE closed_at IS NULL;
CREATE INDEX ix_alarm_raised_at ON alarm (raised_at);

