"""Renders the pages as HTML: a list of executions, and one execution with its plan. No HTTP, no SQL."""
