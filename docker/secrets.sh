#!/bin/sh
# Makes the secrets of docker-compose.yml in ./secrets, those that are not there yet. The folder is its owner's alone;
# the files in it are readable, because each container reads them as a user of its own.
set -eu
cd "$(dirname "$0")/.."
umask 022
mkdir -p secrets
chmod 700 secrets
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
for name in postgres_password collector_password reader_password grafana_password; do
  [ -s "secrets/$name" ] || random >"secrets/$name"
done
[ -s secrets/tokens ] || echo "spark:$(random)" >secrets/tokens
[ -s secrets/spark_token ] || sed -n 's/^spark://p' secrets/tokens >secrets/spark_token
chmod 600 secrets/spark_token
