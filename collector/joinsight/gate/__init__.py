"""Compares the queries of two sides, such as main and a branch, for continuous integration.

::

    files of documents, databases ──► runs.QueryRun
    QueryRun, QueryRun ──► pairs.Pair: the same query of both sides, and what changed
    Pair, file of accepted changes ──► report: Markdown, JUnit XML
"""
