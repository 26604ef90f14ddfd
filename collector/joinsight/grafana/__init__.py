"""Brings the dashboards to a Grafana: over its HTTP interface, or as files that it reads."""
