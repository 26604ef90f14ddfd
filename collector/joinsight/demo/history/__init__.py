"""Believable history: months of runs of hundreds of jobs, with events planted on known days.

Each run is a document that was recorded from a real Spark, with the job's names and the run's numbers, and goes through
the same `execution_rows` as one from a driver. The same arguments give the same rows.
"""

from __future__ import annotations

from joinsight.demo.history.generate import GENERATED, Event, Planted, generate, repeat

__all__ = ["GENERATED", "Event", "Planted", "generate", "repeat"]
