#!/bin/bash
# A real Kubernetes with one node on this machine, as root: cluster.sh up | down PROGRAMS FOLDER
#   up     control plane, DNS, node, and the images FOLDER/images/*.tar: some 15 seconds
#   down   stops all and takes back what it changed
# Pods reach the host, and executors a driver outside of the cluster, at 10.77.0.1.
set -u
command=$1 P=$2 K=$3 G=10.77.0.1
NODE=$(hostname -I | awk '{print $1}')
export KUBECONFIG=$K/pki/admin.kubeconfig PATH=$P/bin:$P/root/usr/bin:$PATH:$P/root/usr/sbin
mkdir -p "$K"/{log,pid,cni,ctd,pki,images}
cd "$K" || exit 1
CTR() { ctr -a "$K/ctd/sock" -n k8s.io "$@"; }

certificate() { # NAME SUBJECT USAGE NAMES
  openssl req -newkey rsa:2048 -nodes -keyout "pki/$1.key" -subj "$2" -out "pki/$1.csr" 2>/dev/null
  printf 'extendedKeyUsage=%s\nsubjectAltName=%s\n' "$3" "$4" >"pki/$1.ext"
  openssl x509 -req -in "pki/$1.csr" -CA pki/ca.crt -CAkey pki/ca.key -CAcreateserial -days 30 -extfile "pki/$1.ext" -out "pki/$1.crt" 2>/dev/null
  [ "$3" = serverAuth ] || { k="kubectl config --kubeconfig=pki/$1.kubeconfig"
    { $k set-cluster l --server=https://127.0.0.1:6443 --certificate-authority=pki/ca.crt --embed-certs; $k set-credentials u --client-certificate="pki/$1.crt" --client-key="pki/$1.key" --embed-certs; $k set-context c --cluster=l --user=u; $k use-context c; } >/dev/null; }
}
start() { n=$1; shift; nohup setsid nice -n 5 "$@" >"log/$n.log" 2>&1 & echo $! >"pid/$n"; }

up() {
  openssl req -x509 -newkey rsa:2048 -nodes -keyout pki/ca.key -out pki/ca.crt -days 30 -subj /CN=k8s-ca 2>/dev/null
  openssl genrsa -out pki/sa.key 2048 2>/dev/null; openssl rsa -in pki/sa.key -pubout -out pki/sa.pub 2>/dev/null
  certificate admin /O=system:masters/CN=admin clientAuth DNS:admin
  certificate cm /CN=system:kube-controller-manager clientAuth DNS:cm
  certificate sched /CN=system:kube-scheduler clientAuth DNS:sched
  certificate proxy /CN=system:kube-proxy clientAuth DNS:proxy
  certificate kapi /O=system:masters/CN=kube-apiserver-kubelet-client clientAuth DNS:kapi
  certificate kubelet /O=system:nodes/CN=system:node:node1 clientAuth,serverAuth "DNS:node1,IP:$NODE,IP:127.0.0.1"
  certificate apiserver /CN=kube-apiserver serverAuth "DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc,DNS:kubernetes.default.svc.cluster.local,DNS:localhost,IP:127.0.0.1,IP:10.96.0.1,IP:$G,IP:$NODE"
  cat >ctd/config.toml <<C
version = 2
root = "$K/ctd/root"
state = "$K/ctd/state"
disabled_plugins = ["io.containerd.internal.v1.opt"]
[grpc]
  address = "$K/ctd/sock"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "localhost/pause:1"
  disable_apparmor = true
  restrict_oom_score_adj = true # without CAP_SYS_RESOURCE no pod starts otherwise
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "$P/root/usr/lib/cni"
    conf_dir = "$K/cni"
  [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
    runtime_type = "io.containerd.runc.v2"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
      SystemdCgroup = false
      BinaryName = "$(command -v runc)"
C
  cat >cni/10.conflist <<C
{"cniVersion": "0.4.0", "name": "k8s", "plugins": [
 {"type": "bridge", "bridge": "cni-k8s", "isGateway": true, "ipMasq": true, "hairpinMode": true,
  "ipam": {"type": "host-local", "dataDir": "$K/ipam", "ranges": [[{"subnet": "10.77.0.0/24"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
 {"type": "portmap", "capabilities": {"portMappings": true}}]}
C
  cat >kubelet.yaml <<C
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: $K/pki/ca.crt}}
authorization: {mode: Webhook}
tlsCertFile: $K/pki/kubelet.crt
tlsPrivateKeyFile: $K/pki/kubelet.key
cgroupDriver: cgroupfs
cgroupsPerQOS: true
enforceNodeAllocatable: [none]
failSwapOn: false
failCgroupV1: false
containerRuntimeEndpoint: unix://$K/ctd/sock
podLogsDir: $K/podlogs
clusterDNS: [$G]
clusterDomain: cluster.local
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%, nodefs.inodesFree: 1%}
imageGCHighThresholdPercent: 99
imageGCLowThresholdPercent: 98
makeIPTablesUtilChains: false
C
  printf 'apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nclientConnection: {kubeconfig: %s/pki/proxy.kubeconfig}\nclusterCIDR: 10.77.0.0/24\nmode: iptables\nhostnameOverride: node1\nconntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}\n' "$K" >proxy.yaml
  printf '.:53 {\n    bind %s\n    errors\n    kubernetes cluster.local {\n        kubeconfig %s/pki/admin.kubeconfig\n        pods insecure\n    }\n    forward . /etc/resolv.conf\n}\n' "$G" "$K" >Corefile
  for s in vm.overcommit_memory kernel.panic kernel.panic_on_oops net.ipv4.conf.all.route_localnet net.ipv4.ip_forward; do echo "$s=$(sysctl -n $s)"; done >sysctl.before
  sysctl -qw net.ipv4.ip_forward=1
  start etcd etcd --data-dir "$K/etcd" --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 --listen-peer-urls http://127.0.0.1:2380 --initial-advertise-peer-urls http://127.0.0.1:2380 --initial-cluster default=http://127.0.0.1:2380
  start containerd containerd -c "$K/ctd/config.toml"
  ip link add cni-k8s type bridge; ip addr add $G/24 dev cni-k8s; ip link set cni-k8s up
  for _ in $(seq 50); do CTR version >/dev/null 2>&1 && break; sleep 0.3; done
  for i in images/*.tar; do CTR images import "$i" >>log/import.log 2>&1; done
  I=$K/pki
  start apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 --secure-port 6443 --advertise-address "$NODE" --service-cluster-ip-range 10.96.0.0/16 \
    --tls-cert-file $I/apiserver.crt --tls-private-key-file $I/apiserver.key --client-ca-file $I/ca.crt --authorization-mode Node,RBAC --enable-admission-plugins NodeRestriction \
    --service-account-issuer https://kubernetes.default.svc --service-account-key-file $I/sa.pub --service-account-signing-key-file $I/sa.key \
    --kubelet-client-certificate $I/kapi.crt --kubelet-client-key $I/kapi.key --kubelet-preferred-address-types InternalIP --cert-dir "$K/apiserver"
  for _ in $(seq 120); do kubectl get --raw /readyz >/dev/null 2>&1 && break; sleep 0.5; done
  start cm kube-controller-manager --kubeconfig $I/cm.kubeconfig --authentication-kubeconfig $I/cm.kubeconfig --authorization-kubeconfig $I/cm.kubeconfig --service-account-private-key-file $I/sa.key --root-ca-file $I/ca.crt --use-service-account-credentials --cluster-cidr 10.77.0.0/24 --leader-elect=false --cert-dir "$K/cm"
  start sched kube-scheduler --kubeconfig $I/sched.kubeconfig --authentication-kubeconfig $I/sched.kubeconfig --authorization-kubeconfig $I/sched.kubeconfig --leader-elect=false --cert-dir "$K/sched"
  start kubelet kubelet --config kubelet.yaml --kubeconfig $I/kubelet.kubeconfig --hostname-override node1 --node-ip "$NODE" --root-dir "$K/kubelet" --cert-dir "$K/kubelet-pki"
  start coredns coredns -conf Corefile; start kubeproxy kube-proxy --config proxy.yaml
  for _ in $(seq 120); do kubectl wait --for=condition=Ready node/node1 --timeout=5s >/dev/null 2>&1 && break; sleep 0.5; done
  for _ in $(seq 60); do kubectl get serviceaccount default >/dev/null 2>&1 && break; sleep 0.5; done
  kubectl wait --for=condition=Ready node/node1 --timeout=5s
}

down() {
  kubectl delete deploy,statefulset --all -A --wait=false; kubectl delete pods --all -A --grace-period=1 --timeout=60s
  for n in kubeproxy coredns kubelet sched cm apiserver; do [ -f pid/$n ] && kill "$(cat pid/$n)"; done 2>/dev/null
  kube-proxy --cleanup --config proxy.yaml >log/clean.log 2>&1
  for c in $(CTR tasks ls -q); do CTR tasks kill -s KILL "$c"; sleep 0.3; CTR tasks rm -f "$c"; done 2>/dev/null; for c in $(CTR containers ls -q); do CTR containers rm "$c"; done 2>/dev/null
  sleep 2; for n in etcd containerd; do [ -f pid/$n ] && kill "$(cat pid/$n)"; done 2>/dev/null; sleep 1; rm -f pid/*
  mount | awk '{print $3}' | grep -E "^$K/|^/run/netns/cni" | tac | while read -r m; do umount "$m"; done
  ip link del cni-k8s 2>/dev/null
  for _ in 1 2 3; do find /sys/fs/cgroup/*/kubepods -depth -type d 2>/dev/null | while read -r c; do rmdir "$c" 2>/dev/null; done; done
  for i in iptables ip6tables; do for t in filter nat mangle raw; do
    $i -t $t -S 2>/dev/null | grep -E '^-A (INPUT|OUTPUT|FORWARD|PREROUTING|POSTROUTING) .*-j (KUBE|CNI)-' | sed 's/^-A/-D/' | while read -r r; do eval "$i -t $t $r"; done
    for o in -F -X; do for c in $($i -t $t -S 2>/dev/null | sed -n 's/^-N \(\(KUBE\|CNI\)-.*\)/\1/p'); do $i -t $t $o "$c"; done; done
  done; done
  [ -f sysctl.before ] && xargs sysctl -qw <sysctl.before; rm -rf ctd/root ctd/state etcd kubelet podlogs ipam apiserver cm sched kubelet-pki pki
}
"$command"
