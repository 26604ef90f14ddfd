"""The collector's service: receives documents over HTTP, stores them, exports metrics, shows pages.

A request passes `protocol` (deadlines and limits of connections), `app`, `access` (no web sites), `tokens`, `admission`
(quotas; senders take turns), and with others that wait for the same slot `ingest`, here or in a process of `writers`.
`pages` has capacity of its own, so that readers delay no sender. `server` checks all settings first, `background` runs
all periodic tasks, and `metrics_table` declares every metric.
"""
