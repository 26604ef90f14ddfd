"""Installs the dashboards in Grafana: over its HTTP API, or as provisioning files."""
