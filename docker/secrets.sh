#!/bin/sh
# Makes the secrets of docker-compose.yml in ./secrets, those that are not there yet. The folder is its owner's alone;
# the files in it are readable, because each container reads them as a user of its own. So are the files of this
# repository that containers mount, whatever the umask of the checkout was.
set -eu
cd "$(dirname "$0")/.."
umask 022
mkdir -p secrets
chmod 700 secrets
random() { od -An -N24 -tx1 /dev/urandom | tr -d ' \n'; }
for name in postgres_password collector_password reader_password grafana_password; do
  [ -s "secrets/$name" ] || random >"secrets/$name"
done
# Two kinds of token: Spark's sends and cannot read, that of the pages reads and cannot send
[ -s secrets/tokens ] || printf 'spark:%s\nread:pages:%s\n' "$(random)" "$(random)" >secrets/tokens
grep -q '^read:' secrets/tokens || printf '\nread:pages:%s\n' "$(random)" >>secrets/tokens
[ -s secrets/spark_token ] || sed -n 's/^spark://p' secrets/tokens >secrets/spark_token
[ -s secrets/pages_token ] || sed -n 's/^read:pages://p' secrets/tokens >secrets/pages_token
chmod 600 secrets/spark_token secrets/pages_token
for folder in docker dashboards; do [ ! -d "$folder" ] || chmod -R go+rX "$folder"; done
# docker-compose.yml asks for it
grep -qs '^JOINSIGHT_SECRETS=' .env || printf '\nJOINSIGHT_SECRETS=secrets\n' >>.env
