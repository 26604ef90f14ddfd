CREATE TABLE cause (
    code TEXT NOT NULL,
    started_at TIMESTAMP WITH TIME ZONE NOT NULL,
    application_id TEXT NOT NULL,
    attempt_id TEXT NOT NULL,
    execution_id BIGINT NOT NULL,
    wall_ms BIGINT NOT NULL,
    task_ms BIGINT NOT NULL,
    stage_id INTEGER,
    evidence TEXT[],
    compared_with TEXT NOT NULL,
    CONSTRAINT pk_cause PRIMARY KEY (started_at, application_id, attempt_id, execution_id, code)
);
COMMENT ON TABLE cause IS 'Why a run took longer than the typical run before (docs/why.md#over-many-runs), written by collectors.';
COMMENT ON COLUMN cause.code IS 'as in docs/why.md: data, plan, skew, ..., not_explained; normal: within the scatter';
COMMENT ON COLUMN cause.started_at IS 'when the execution started';
COMMENT ON COLUMN cause.application_id IS 'Spark''s application id';
COMMENT ON COLUMN cause.attempt_id IS 'Spark''s application attempt id; empty if none';
COMMENT ON COLUMN cause.execution_id IS 'Spark''s SQL execution id, unique within the application attempt';
COMMENT ON COLUMN cause.wall_ms IS 'how much longer it took for this, milliseconds; below 0: how much less';
COMMENT ON COLUMN cause.task_ms IS 'the same in run time of tasks';
COMMENT ON COLUMN cause.stage_id IS 'the stage in which most of it is; NULL: none, or unknown';
COMMENT ON COLUMN cause.evidence IS 'what moved';
COMMENT ON COLUMN cause.compared_with IS 'the name of the run that it is compared with';

