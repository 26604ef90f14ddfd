#!/bin/sh
# The image's entry point: joinsight, with the database's password from a file, so that no environment that people see has it.
set -eu
if [ -n "${JOINSIGHT_DATABASE_PASSWORD_FILE:-}" ]; then
  PGPASSWORD=$(cat "$JOINSIGHT_DATABASE_PASSWORD_FILE")
  export PGPASSWORD
fi
exec joinsight "$@"
