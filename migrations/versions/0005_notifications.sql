CREATE TABLE notification (
    notification_id TEXT NOT NULL,
    created_at TIMESTAMP WITH TIME ZONE NOT NULL,
    body JSONB NOT NULL,
    attempts INTEGER NOT NULL,
    next_at TIMESTAMP WITH TIME ZONE,
    delivered_at TIMESTAMP WITH TIME ZONE,
    problem TEXT,
    CONSTRAINT pk_notification PRIMARY KEY (notification_id)
);
COMMENT ON TABLE notification IS 'What the webhook is told, each once (docs/alerts.md), written by collectors.';
COMMENT ON COLUMN notification.notification_id IS 'what it is about: the alarm or forecast, and when it was raised';
COMMENT ON COLUMN notification.created_at IS 'when it was to be told';
COMMENT ON COLUMN notification.body IS 'the message';
COMMENT ON COLUMN notification.attempts IS 'how often it was sent, without success but for the last time';
COMMENT ON COLUMN notification.next_at IS 'when it is sent again; NULL: it was delivered, or given up';
COMMENT ON COLUMN notification.delivered_at IS 'when the receiver took it; NULL: it did not';
COMMENT ON COLUMN notification.problem IS 'why the last attempt failed';
CREATE INDEX ix_notification_waiting ON notification (next_at) WHERE next_at IS NOT NULL;

