"""The severities of findings."""

SEVERITIES = ("critical", "warning", "info")
"""The worst first."""
