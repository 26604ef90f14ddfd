/**
 * Event logs become the same documents: {@code EventLogReader} for {@code joinsight backfill}, {@code EventLogs} for its
 * Spark job. Long lines are read by {@code JsonLine}, which skips what nobody needs.
 */
package io.joinsight.eventlog;
