"""Grafana's dashboards: a module each, and the parts that they share. `python -m dashboards` writes their JSON.

It is needed to change them only; what is shipped is the JSON in `grafana/`.
"""

GRAFANA = "12.4.11"
"""The version that they are made for and checked against; its dashboards have schema version 42."""
