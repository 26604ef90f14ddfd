"""The plan of an execution as the frames of Grafana's node graph, computed in SQL.

Grafana places nodes by itself unless all have coordinates. Ours make it look like a plan: the result on top, scans at
the bottom, a join's left input on the left. A node is above the middle of its leaves; what is read more than once
hangs below its first reader. Node ids rise in the order of Spark's depth-first visit, so a reader's id is the smaller.
"""

from __future__ import annotations

from dashboards.limits import SKEWED
from dashboards.sql import EXECUTION_KEY, JOB, TAG, TIME, in_words
from joinsight.plan.engines import ROWS

MOST_NODES = 1500
"""Maximum nodes for Grafana's panel; the collector's own page draws any number."""
KINDS = ("join", "shuffle", "broadcast", "scan", "other")
DETAILS = {
    "findings": "Findings",
    "skew": "Largest task to median",
    "partitions": "Partitions read",
    "spilled": "Spilled, as it was in memory",
    "time": "Waited, or driver time",
    "text": "As Spark writes it",
}
"""The details that a click on a node shows."""
WIDTH, HEIGHT = 190, 150
"""Distances between neighbours, in units of Grafana's drawing, where a circle has 80."""

_ROWS = ", ".join(f"'{name}'" for name in ROWS)

CHOSEN = f"""
    chosen AS (
        SELECT {EXECUTION_KEY} FROM execution
        WHERE {TIME} AND {JOB} AND ('${{execution_id}}' <> '' OR {TAG})
            AND ('${{application_id}}' = '' OR application_id = '${{application_id}}')
            AND ('${{attempt_id}}' = '' OR attempt_id = '${{attempt_id}}')
            AND ('${{execution_id}}' = '' OR execution_id = nullif('${{execution_id}}', '')::bigint)
        ORDER BY started_at DESC, execution_id DESC LIMIT 1
    )"""
"""The execution selected by the variables; the newest of several, so that empty variables select the newest of all."""


def of_chosen(table: str) -> str:
    """SQL: the rows of the chosen execution, read from its month only."""
    return f"FROM {table} JOIN chosen USING ({EXECUTION_KEY}) WHERE $__timeFilter({table}.started_at)"


def short(number: str) -> str:
    """SQL: a short text of a number of rows."""
    steps = " ".join(
        f"WHEN {number} >= {least} THEN trim_scale(round({number} / {size}, 1)) || ' {letter}'"
        for least, size, letter in (("1e9", "1e9", "G"), ("1e6", "1e6", "M"), ("1e4", "1e3", "k"))
    )
    return f"(CASE {steps} ELSE {number}::text END || ' rows')"


_TREE = f"""
WITH RECURSIVE {CHOSEN},
    node AS (
        SELECT node_id, name, simple {of_chosen("plan_node")} AND NOT is_cluster
        ORDER BY node_id LIMIT {MOST_NODES}
    ),
    edge AS (
        SELECT position, child_id, parent_id {of_chosen("plan_edge")}
            AND child_id IN (SELECT node_id FROM node) AND parent_id IN (SELECT node_id FROM node)
    )"""

NODES = f"""{_TREE},
    tree AS (
        SELECT DISTINCT ON (child_id) child_id, parent_id FROM edge WHERE parent_id < child_id
        ORDER BY child_id, position
    ),
    level AS (
        SELECT node_id, 0 AS depth FROM node WHERE node_id NOT IN (SELECT child_id FROM tree)
        UNION ALL
        SELECT child_id, depth + 1 FROM level JOIN tree ON parent_id = node_id
    ),
    leaf_below AS (
        SELECT node_id, row_number() OVER (ORDER BY node_id) AS place FROM node
        WHERE node_id NOT IN (SELECT parent_id FROM tree)
        UNION ALL
        SELECT parent_id, place FROM leaf_below JOIN tree ON child_id = node_id
    ),
    place AS (SELECT node_id, (min(place) + max(place)) / 2.0 AS place FROM leaf_below GROUP BY node_id),
    written AS (
        SELECT node_id, bytes_written, rows_written, rows_read_max, skew_ratio,
            coalesce(aqe_partitions, partitions) AS partitions, fetch_wait_ms, partitioning, {in_words("keys")} AS keys
        {of_chosen("shuffle")}
    ),
    sent AS (
        SELECT node_id, size_bytes, rows, driver_ms {of_chosen("v_broadcasts")}
    ),
    joined AS (
        SELECT node_id, join_type, output_rows, spill_bytes, {in_words("left_keys")} AS keys {of_chosen("joins")}
    ),
    measured AS (
        SELECT node_id, max(total) FILTER (WHERE name IN ({_ROWS})) AS rows,
            max(total) FILTER (WHERE name = 'size of files read') AS file_bytes
        {of_chosen("node_metric")} GROUP BY node_id
    ),
    found AS (
        SELECT node_id, string_agg(finding, ', ' ORDER BY finding) AS findings {of_chosen("finding")} GROUP BY node_id
    ),
    kind AS (
        SELECT node_id, CASE
            WHEN node_id IN (SELECT node_id FROM joined) THEN 'join'
            WHEN node_id IN (SELECT node_id FROM written) THEN 'shuffle'
            WHEN node_id IN (SELECT node_id FROM sent) THEN 'broadcast'
            WHEN name ~ 'Scan' THEN 'scan' ELSE 'other'
        END AS kind FROM node
    )
SELECT node_id::text AS id, name AS title,
    left(concat_ws(' · ', '⚠ ' || findings, CASE WHEN {SKEWED} THEN 'skew ' || round(skew_ratio) || '×' END,
        coalesce(join_type || ' on ' || joined.keys, join_type, 'by ' || nullif(written.keys, ''), partitioning)
    ), 60) AS subtitle,
    coalesce(
        pg_size_pretty(coalesce(bytes_written, size_bytes)), pg_size_pretty(file_bytes) || ' of files', ''
    ) AS mainstat,
    coalesce({short("coalesce(output_rows, rows_written, sent.rows, measured.rows)")}, '') AS secondarystat,
    {", ".join(f"(kind = '{each}')::int AS arc__{each}" for each in KINDS)},
    CASE WHEN kind = 'other' THEN 28 WHEN kind = 'scan' THEN 34 ELSE 46 END AS noderadius,
    ({WIDTH} * place)::float8 AS fixedx, {HEIGHT} * depth AS fixedy,
    coalesce(findings, '') AS detail__findings,
    coalesce(round(skew_ratio::numeric, 1) || '×', '') AS detail__skew,
    coalesce(partitions::text, '') AS detail__partitions,
    coalesce(pg_size_pretty(spill_bytes), '') AS detail__spilled,
    coalesce(coalesce(driver_ms, fetch_wait_ms) || ' ms', '') AS detail__time,
    left(simple, 300) AS detail__text
FROM node JOIN kind USING (node_id) JOIN level USING (node_id) JOIN place USING (node_id)
    LEFT JOIN written USING (node_id) LEFT JOIN sent USING (node_id) LEFT JOIN joined USING (node_id)
    LEFT JOIN measured USING (node_id) LEFT JOIN found USING (node_id)
ORDER BY node_id
"""

EDGES = f"""{_TREE},
    counted AS (
        SELECT node_id, max(total) AS rows {of_chosen("node_metric")}
            AND name IN ({_ROWS}, 'shuffle records written') AND total IS NOT NULL
        GROUP BY node_id
    ),
    silent AS (  -- operators that count no rows and have one input: a line is as thick below them as above
        SELECT parent_id, max(child_id) AS child_id FROM edge
        WHERE parent_id NOT IN (SELECT node_id FROM counted) AND parent_id < child_id
        GROUP BY parent_id HAVING count(*) = 1
    ),
    flow AS (
        SELECT node_id, rows, rows AS own FROM counted
        UNION ALL
        SELECT parent_id, rows, NULL FROM flow JOIN silent ON child_id = node_id
    )
SELECT position::text AS id, child_id::text AS source, parent_id::text AS target,
    coalesce({short("own")}, '') AS mainstat,
    1 + least(7, round(log(greatest(coalesce(rows, 0), 1))))::int AS thickness
FROM edge LEFT JOIN flow ON node_id = child_id
ORDER BY position
"""
