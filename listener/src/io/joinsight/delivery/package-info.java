/**
 * Documents reach the collector: {@code Sender} queues snapshots, batches their documents and sends them; {@code
 * Delivery} decides after each reply whether to go on, to halve the batch or to wait; what is left goes to the {@code
 * Spool}. {@code Settings} reads where to, with which token, and within which limits.
 */
package io.joinsight.delivery;
