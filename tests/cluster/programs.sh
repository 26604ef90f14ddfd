#!/bin/bash
# Builds what the tests of clusters need, as root on Debian: programs.sh NAME FOLDER. The folder must not exist yet.
#   base        a root file system of Debian with Python, for images where no registry of containers is reachable
#   docker      Docker's engine, unpacked from Debian's packages, with Compose as a Go program
#   helm        Helm 3
#   prometheus  Debian's Prometheus, unpacked
set -euo pipefail
name=$1 folder=$2
export GOFLAGS="-buildvcs=false -trimpath" CGO_ENABLED=0
mkdir -p "$folder"
cd "$folder"

packages() { # names of commands and their packages: installs those that are missing
  local missing=()
  while [ $# -gt 0 ]; do command -v "$1" >/dev/null || missing+=("$2"); shift 2; done
  [ ${#missing[@]} = 0 ] || { apt-get update -qq; DEBIAN_FRONTEND=noninteractive apt-get install -y -qq "${missing[@]}" >/dev/null; }
}

unpack() { # packages, without installing them
  mkdir deb && (cd deb && apt-get update -qq && apt-get download -qq "$@")
  for package in deb/*.deb; do dpkg -x "$package" .; done
  rm -r deb
}

go_tool() { # PACKAGE VERSION OUT: a module of its own, because `go install` refuses modules with exclude directives
  mkdir module
  (cd module && go mod init tool && go get -tool "$1@$2" && nice go build -o "$3" "$1")
  rm -r module
}

base() {
  packages debootstrap debootstrap
  debootstrap --variant=minbase --include=ca-certificates,python3,python3-venv,python3-pip,wget bookworm root >/dev/null
  ln -s python3 root/usr/bin/python
  rm root/usr/lib/python3*/EXTERNALLY-MANAGED
  # pip trusts what this machine trusts; not in ca-certificates.crt, which a JDK's package makes again
  cp /etc/ssl/certs/ca-certificates.crt root/etc/pip-ca.crt
  printf '[global]\ncert = /etc/pip-ca.crt\n' >root/etc/pip.conf
  rm -rf root/var/cache/apt/archives/*.deb
}

docker() {
  packages runc runc iptables iptables
  unpack docker.io containerd tini
  mkdir -p configuration/cli-plugins
  go_tool github.com/docker/compose/v2/cmd v2.40.3 "$PWD/configuration/cli-plugins/docker-compose"
}

prometheus() { unpack prometheus; }

helm() { go_tool helm.sh/helm/v3/cmd/helm v3.19.0 "$PWD/helm"; }

"$name"
