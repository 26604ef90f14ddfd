"""The two data sources of the dashboards. `dashboards/provisioning` has the same as files (a test compares)."""

from __future__ import annotations

from typing import Any

POSTGRESQL, PROMETHEUS = "joinsight-postgresql", "joinsight-prometheus"
"""The uids of the data sources."""
SSL_MODES = ("disable", "require", "verify-ca", "verify-full")


def postgresql(address: str, database: str, user: str, sslmode: str, password: str | None) -> dict[str, Any]:
    """The data source for Grafana's API; `address` is HOST:PORT, `password` None keeps the current one."""
    source: dict[str, Any] = {
        "name": "Joinsight PostgreSQL",
        "uid": POSTGRESQL,
        "type": "grafana-postgresql-datasource",
        "access": "proxy",
        "url": address,
        "user": user,
        "jsonData": {
            "database": database,
            "sslmode": sslmode,
            "postgresVersion": 1500,  # the newest that Grafana distinguishes
            "maxOpenConns": 10,
            "maxIdleConns": 2,
            "connMaxLifetime": 3600,
        },
    }
    return source if password is None else {**source, "secureJsonData": {"password": password}}


def prometheus(url: str) -> dict[str, Any]:
    """The data source for Grafana's API."""
    return {
        "name": "Joinsight Prometheus",
        "uid": PROMETHEUS,
        "type": "prometheus",
        "access": "proxy",
        "url": url,
        "jsonData": {"httpMethod": "POST", "timeInterval": "15s"},
    }
