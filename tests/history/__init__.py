"""A realistic history: months of runs of hundreds of jobs, with events planted on known days.

Each run is a document that was recorded from a real Spark, with the job's names and the run's numbers, and goes through
the same `execution_rows` as one from a driver. The same arguments give the same rows.
"""

from __future__ import annotations

from datetime import datetime, timezone

from tests.history.generate import Event, Planted, generate

END = datetime(2026, 11, 20, 12, tzinfo=timezone.utc)
"""Until then goes the history that tests share: a Friday."""

__all__ = ["END", "Event", "Planted", "generate"]
