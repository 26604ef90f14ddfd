#!/bin/sh
# On an empty volume: the superuser's password, then the scripts of /docker-entrypoint-initdb.d on a server without TCP.
set -eu
as_postgres() { setpriv --reuid=postgres --regid=postgres --clear-groups "$@"; }
if [ ! -s "$PGDATA/PG_VERSION" ]; then
  mkdir -p "$PGDATA" && chown -R postgres /var/lib/postgresql && chmod 700 "$PGDATA"
  cat "${POSTGRES_PASSWORD_FILE:-/dev/null}" >/tmp/password && chown postgres /tmp/password
  as_postgres initdb --username=postgres --pwfile=/tmp/password --auth-host=trust --auth-local=trust ${POSTGRES_INITDB_ARGS:-} >/dev/null
  rm /tmp/password
  echo 'host all all all scram-sha-256' >>"$PGDATA/pg_hba.conf"
  as_postgres pg_ctl -D "$PGDATA" -o "-c listen_addresses='' -k /tmp" -w start >/dev/null
  for script in /docker-entrypoint-initdb.d/*.sh; do
    [ ! -e "$script" ] || PGHOST=/tmp POSTGRES_USER=postgres as_postgres sh "$script"
  done
  as_postgres pg_ctl -D "$PGDATA" -m fast -w stop >/dev/null
fi
exec setpriv --reuid=postgres --regid=postgres --clear-groups postgres -c listen_addresses='*' -k /tmp "$@"
