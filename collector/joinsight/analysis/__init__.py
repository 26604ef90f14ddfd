"""Turns documents into rows, and compares executions."""
