/**
 * Events become snapshots of executions, and snapshots become documents.
 *
 * <p>{@code SparkEvents} reads the events of a running driver and {@code eventlog} those of a log; both call {@code
 * Executions}, which belongs to one thread. It hands a {@code Snapshot} to a {@code SnapshotConsumer}, and {@code
 * Documents} writes it as JSON. {@code SparkAccess} has all differences between versions of Spark.
 */
package io.joinsight.capture;
