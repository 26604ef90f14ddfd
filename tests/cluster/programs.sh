#!/bin/bash
# Builds what the tests of clusters need, as root on Debian: programs.sh NAME FOLDER. The folder must not exist yet.
#   base        a root file system of Debian with Python, for images where no registry of containers is reachable
#   docker      Docker's engine, unpacked from Debian's packages, with Compose as a Go program
#   helm        Helm 3
#   kubernetes  Kubernetes 1.33 and CoreDNS, as Go programs; etcd, containerd and network plugins of Debian
#   prometheus  Debian's Prometheus, unpacked
#   s3          Hadoop's jars for S3: needs Maven
#   yarn        what Hadoop's tests start YARN and HDFS with, beside Spark's jars: needs Maven
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

kubernetes() {
  local version=1.33.13 command=k8s.io/kubernetes/cmd mod linked="-s -w"
  packages runc runc iptables iptables openssl openssl
  mkdir -p bin src root
  (cd root && unpack etcd-server containerd containernetworking-plugins)
  cd src && go mod init cluster && go mod edit -godebug=default=go1.24
  mod=$(go mod download -json "k8s.io/kubernetes@v$version" | sed -n 's/.*"GoMod": "\(.*\)",/\1/p')
  # What it replaces by folders of its own repository is published as modules of the same number
  for module in $(sed -n 's#^\t\(k8s.io/[^ ]*\) => ./staging.*#\1#p; s#^replace \(k8s.io/[^ ]*\) => ./staging.*#\1#p' "$mod"); do
    go mod edit -replace="$module=$module@v0${version#1}"
  done
  for package in k8s.io/component-base/version k8s.io/client-go/pkg/version; do
    linked="$linked -X $package.gitVersion=v$version -X $package.gitMajor=1 -X $package.gitMinor=33"
  done
  for name in kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy kubectl; do
    go get -tool "$command/$name@v$version"
  done
  nice go build -ldflags "$linked" -o ../bin/ "$command"/{kube-apiserver,kube-controller-manager,kube-scheduler,kubelet,kube-proxy,kubectl}
  cd .. && mkdir dns && cd dns && go mod init dns
  cat >main.go <<'GO'
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/forward"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func main() {
	dnsserver.Directives = []string{"bind", "errors", "kubernetes", "forward"}
	coremain.Run()
}
GO
  go get github.com/coredns/coredns@v1.12.4 && go mod tidy && nice go build -ldflags "-s -w" -o ../bin/coredns .
  cd .. && rm -r src dns
}

jars() { # artifacts of Maven
  for artifact in "$@"; do
    mvn -q -B org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy "-Dartifact=$artifact" "-DoutputDirectory=$PWD"
  done
}

s3() { jars org.apache.hadoop:hadoop-aws:3.4.2 software.amazon.awssdk:bundle:2.29.52; }

yarn() {
  local bouncy=org.bouncycastle
  jars org.apache.hadoop:hadoop-client-minicluster:3.4.2 junit:junit:4.13.2 org.hamcrest:hamcrest-core:1.3 \
    org.mockito:mockito-core:2.28.2 net.bytebuddy:byte-buddy:1.14.9 org.objenesis:objenesis:3.3 \
    $bouncy:bcprov-jdk18on:1.78.1 $bouncy:bcpkix-jdk18on:1.78.1 $bouncy:bcutil-jdk18on:1.78.1 javax.xml.bind:jaxb-api:2.3.1 \
    javax.activation:javax.activation-api:1.2.0 com.sun.xml.bind:jaxb-impl:2.3.1 com.sun.xml.bind:jaxb-core:2.3.0.1
}

helm() { go_tool helm.sh/helm/v3/cmd/helm v3.19.0 "$PWD/helm"; }

"$name"
