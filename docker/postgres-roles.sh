#!/bin/sh
# Run once by PostgreSQL's image, on an empty volume: the collector's role owns the database, Grafana's may only read.
# What Grafana's role may read is granted by `joinsight db grant-reader`, after the tables are made.
set -eu
export SECRETS="${SECRETS:-/run/secrets}"
psql --no-psqlrc --set ON_ERROR_STOP=1 --username "$POSTGRES_USER" --dbname postgres <<'SQL'
\set collector `cat "$SECRETS/joinsight_collector_password"`
\set reader `cat "$SECRETS/joinsight_reader_password"`
CREATE ROLE joinsight LOGIN PASSWORD :'collector';
CREATE ROLE joinsight_reader LOGIN PASSWORD :'reader';
CREATE DATABASE joinsight OWNER joinsight;
REVOKE CONNECT ON DATABASE joinsight FROM PUBLIC;
-- As `joinsight db grant-reader` would, had the collector's role the right to alter others
ALTER ROLE joinsight_reader IN DATABASE joinsight SET enable_partitionwise_join = on;
SQL
