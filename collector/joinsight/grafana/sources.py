"""The two data sources that the dashboards ask. `dashboards/provisioning` says the same in files (a test compares)."""

from __future__ import annotations

from typing import Any

POSTGRESQL, PROMETHEUS = "joinsight-postgresql", "joinsight-prometheus"
"""Their uids."""
SSL_MODES = ("disable", "require", "verify-ca", "verify-full")


def postgresql(address: str, database: str, user: str, sslmode: str, password: str | None) -> dict[str, Any]:
    """As Grafana's interface takes it; `address` is HOST:PORT, `password` None to leave the one that is set."""
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
            "postgresVersion": 1500,  # the newest that Grafana tells apart
            "maxOpenConns": 10,
            "maxIdleConns": 2,
            "connMaxLifetime": 3600,
        },
    }
    return source if password is None else {**source, "secureJsonData": {"password": password}}


def prometheus(url: str) -> dict[str, Any]:
    """As Grafana's interface takes it."""
    return {
        "name": "Joinsight Prometheus",
        "uid": PROMETHEUS,
        "type": "prometheus",
        "access": "proxy",
        "url": url,
        "jsonData": {"httpMethod": "POST", "timeInterval": "15s"},
    }
