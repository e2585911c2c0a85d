#!/bin/bash
# Checks the device plugin and the driver in a cluster of one node, as root: etcd, API server,
# scheduler, kubelet and containerd, with a daemon and an emulated GPU.
#
#   check.sh FOLDER
#
# FOLDER has bin/xsched, bin/xschedd and bin/xsched-kubernetes, lib/xsched with the interposers,
# emulated/libcuda.so.1, work, and cluster with the programs that node/build.sh makes. All runs in
# namespaces of its own and ends with them; only cgroups have to be removed.
set -euo pipefail

F=$1
HERE=$(cd "$(dirname "$0")" && pwd)
if [ -z "${XSCHED_CHECK_INSIDE-}" ]; then
    if compgen -G '/sys/fs/cgroup/*/kubepods' >/dev/null || [ -e /sys/fs/cgroup/kubepods ]; then
        echo "FAILED: a kubelet has its cgroups here"
        exit 1
    fi
    . "$HERE/../check/common.sh"
    trap "remove_groups '*/kubepods*'" EXIT
    XSCHED_CHECK_INSIDE=1 unshare --mount --net --pid --fork --kill-child --mount-proc \
        bash "$HERE/check.sh" "$F" &
    # It takes no other signal while it waits.
    trap "kill -9 $!" TERM INT
    wait $!
    exit 0
fi

ADDRESS=10.88.78.1
export KUBECONFIG=$F/etc/admin NO_COLOR=1 XSCHED_SOCKET=/run/xsched/socket PATH=$F/cluster:$PATH
mkdir -p "$F"/{run,log,jobs,etc,node/etc/cdi}
# Places that programs of a cluster have by their own are new ones here.
for folder in /var/lib /var/log /run; do mount -t tmpfs none $folder; done
mkdir -p /run/xsched /var/lib/kubelet
ip link set lo up
# A kubelet does not take an address of the loopback network.
ip address add $ADDRESS/32 dev lo

. "$HERE/../check/common.sh"
describe() {
    kubectl get nodes,pods --all-namespaces
    kubectl --namespace ml get events
}
# $1: its name. The program and its words follow.
start() {
    local name=$1
    shift
    "$@" >>"$F/log/$name" 2>&1 &
    echo $! >"$F/run/$name"
    disown
}
is_gone() { ! kill -0 "$1"; }
end() {
    kill -9 "$(cat "$F/run/$1")"
    until_true "$1 does not end" is_gone "$(cat "$F/run/$1")"
}
said() { [ "$(grep -c "$2" "$F/log/$1")" -ge "$3" ]; }

daemon() {
    start xschedd "$F/bin/xschedd" --socket $XSCHED_SOCKET --config "$F/etc/xschedd.toml"
    until_true "xschedd does not answer" "$F/bin/xsched" ps
}
plugin() {
    start plugin "$F/bin/xsched-kubernetes" device-plugin --slots 2 --xsched "$F" --root "$F/node" \
        --listen 127.0.0.1:9465
}
driver() {
    KUBECONFIG=$F/etc/driver start driver "$F/bin/xsched-kubernetes" dra --node node \
        --xsched "$F" --root "$F/node" --listen 127.0.0.1:9466
}
kubelet_() {
    start kubelet kubelet --config "$F/etc/kubelet.yaml" --kubeconfig "$KUBECONFIG" \
        --container-runtime remote --container-runtime-endpoint unix:///run/containerd.socket \
        --hostname-override node --node-ip $ADDRESS
}
server() {
    start apiserver kube-apiserver --etcd-servers http://127.0.0.1:2379 \
        --advertise-address $ADDRESS --cert-dir "$F/etc/server" --token-auth-file "$F/etc/tokens" \
        --service-account-key-file "$F/etc/accounts" --service-account-issuer https://$ADDRESS \
        --service-account-signing-key-file "$F/etc/accounts" --authorization-mode RBAC \
        --service-cluster-ip-range 10.0.0.0/24 --allow-privileged \
        --disable-admission-plugins ServiceAccount,TaintNodesByCondition
    until_true "the API server is not ready" kubectl get --raw /readyz
}
# $1: a token. Prints a configuration of clients.
configuration() {
    jq -n --arg token "$1" --arg server "https://$ADDRESS:6443" --arg etc "$F/etc" '{
        apiVersion: "v1", kind: "Config", "current-context": "a",
        clusters: [{name: "a", cluster: {server: $server,
            "certificate-authority": ($etc + "/server/apiserver.crt")}}],
        users: [{name: "a", user: {token: $token}}],
        contexts: [{name: "a", context: {cluster: "a", user: "a"}}]}'
}

# An image without a registry, of which containers without a command sleep.
image() {
    bash "$HERE/../check/image.sh" "$F"
    cp "$(command -v sleep)" "$F/root/bin/"
    mkdir -p "$F/image"
    tar -C "$F/root" -cf "$F/image/layer.tar" .
    jq -n --arg sum "sha256:$(sha256sum "$F/image/layer.tar" | cut -d ' ' -f 1)" \
        '{architecture: "amd64", os: "linux", rootfs: {type: "layers", diff_ids: [$sum]},
          config: {Cmd: ["sleep", "infinity"], Env: ["PATH=/bin"]}}' >"$F/image/config.json"
    echo '[{"Config": "config.json", "RepoTags": ["localhost/check:1"], "Layers": ["layer.tar"]}]' \
        >"$F/image/manifest.json"
    tar -C "$F/image" -cf "$F/image.tar" layer.tar config.json manifest.json
}
# A GPU in files, and what its vendor's tool says of it.
gpu() {
    local folder=$F/node/proc/driver/nvidia/gpus/0000:41:00.0
    mkdir -p "$folder"
    printf 'Model: NVIDIA H200\nGPU UUID: GPU-a\nBus Location: 0000:41:00.0\n' \
        >"$folder/information"
    jq -n --arg emulated "$F/emulated" '{cdiVersion: "0.5.0", kind: "nvidia.com/gpu",
        devices: [{name: "GPU-a", containerEdits: {env: ["LD_LIBRARY_PATH=/emulated"], mounts: [
            {hostPath: $emulated, containerPath: "/emulated", options: ["ro", "bind"]}]}}]}' \
        >"$F/node/etc/cdi/nvidia.json"
}
# $1: name, $2: class, $3: a command of the shell, $4: a variable.
pod() {
    echo 0 >"$F/jobs/$1.run"
    jq -n --arg name "$1" --arg class "xsched.dev/$2" --arg command "$3" --arg jobs "$F/jobs" \
        --arg value "${4-}" '{
        apiVersion: "v1", kind: "Pod", metadata: {name: $name, namespace: "ml"},
        spec: {hostNetwork: true, restartPolicy: "Never", automountServiceAccountToken: false,
            terminationGracePeriodSeconds: 1,
            containers: [{name: "main", image: "localhost/check:1", imagePullPolicy: "Never",
                command: ["sh", "-c", $command],
                env: [{name: "XSCHED_AUTO_XQUEUE_PRIORITY", value: $value} | select(.value != "")],
                resources: {limits: {($class): "1"}},
                volumeMounts: [{name: "jobs", mountPath: "/jobs"}]}],
            volumes: [{name: "jobs", hostPath: {path: $jobs}}]}}' | kubectl create -f -
}
of_pod() { kubectl --namespace ml get pod "$1" --output json | jq -e -r "$2"; }
is_in() { [ "$(of_pod "$1" .status.phase)" = "$2" ]; }
ended() { is_in "$1" Succeeded || is_in "$1" Failed; }
printed() { cat /var/log/pods/ml_"$1"_*/main/*.log; }
resource() {
    kubectl get node node --output json | jq -e -r ".status.allocatable[\"xsched.dev/$1\"]"
}
offers() { [ "$(resource batch) $(resource normal) $(resource interactive)" = "2 2 2" ]; }
removed() { kubectl --namespace ml delete pod "$1" --timeout 60s || fail "the pod $1 stays"; }
is_ready() { curl -fsS "http://127.0.0.1:$1/readyz"; }
slice() { kubectl get resourceslice node-gpu.xsched.dev --output json | jq -e -r "$1"; }
is_slice() { [ "$(slice "$1")" = "$2" ]; }

cat >"$F/etc/containerd.toml" <<TOML
version = 2
root = "/var/lib/containerd"
state = "/run/containerd"
[grpc]
address = "/run/containerd.socket"
[plugins."io.containerd.grpc.v1.cri"]
sandbox_image = "localhost/check:1"
enable_cdi = true
cdi_spec_dirs = ["$F/node/etc/cdi", "/var/run/cdi"]
# Root here may not have the right to make processes safer from an end for want of memory.
restrict_oom_score_adj = true
disable_apparmor = true
TOML
cat >"$F/etc/kubelet.yaml" <<YAML
apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
address: $ADDRESS
authentication: {anonymous: {enabled: true}, webhook: {enabled: false}}
authorization: {mode: AlwaysAllow}
cgroupDriver: cgroupfs
enforceNodeAllocatable: []
failSwapOn: false
nodeStatusUpdateFrequency: 2s
evictionHard: {memory.available: 100Mi, nodefs.available: 1%, imagefs.available: 1%}
resolvConf: ""
YAML
# An urgent program that pauses holds the others all the same.
{ printf '[policy]\nfill_pauses = false\n'; cat "$HERE/deploy/base/xschedd.toml"; } \
    >"$F/etc/xschedd.toml"
echo 'secret,admin,admin,system:masters' >"$F/etc/tokens"
openssl genrsa -out "$F/etc/accounts" 2048 2>/dev/null
configuration secret >"$KUBECONFIG"
image >"$F/log/image" 2>&1 || fail "no files for an image"
gpu

echo "== a cluster of one node"
start etcd etcd --data-dir /var/lib/etcd --unsafe-no-fsync
start containerd containerd --config "$F/etc/containerd.toml"
server
ctr() { command ctr --address /run/containerd.socket --namespace k8s.io "$@"; }
until_true "containerd does not answer" ctr version
ctr images import "$F/image.tar" >"$F/log/import" 2>&1 || fail "no image"
kubelet_
start scheduler kube-scheduler --kubeconfig "$KUBECONFIG" --leader-elect=false
daemon
plugin
until_true "the node does not offer the resources" offers
until_true "the plugin is not ready" is_ready 9465
kubectl create namespace ml
echo "$(kubelet --version), $(containerd --version | awk '{ print $1, $3 }')"

echo "== an urgent pod beside a batch pod"
pod train batch "exec work /jobs/train.run"
until_true "the batch pod has no grant" has "pod ml/train/main" .priority -100
goes_on train
pod serve interactive "exec work /jobs/serve.run 4000"
until_true "the urgent pod does not end" ended serve
printed serve | grep -q "right 4000" || fail "the urgent pod's work is wrong: $(printed serve)"
was_held "pod ml/train/main" || fail "the batch pod was not held"
goes_on train
of_process "pod ml/train/main" '"the batch pod was held \(.holds) times for \(.held_ms) ms"'
until_true "the urgent pod's grant stays" has_grants "pod ml/train/main"

echo "== a pod that wants more than it may have"
pod other batch "
xsched ctl grant --pid 1 --class interactive && echo RAISED
xsched ctl revoke 'pod ml/train/main' && echo RAISED
exec work /jobs/other.run" 200
until_true "the other pod has no grant" has "pod ml/other/main" .priority -100
goes_on other
printed other | grep -q RAISED && fail "the pod raised its class"
[ "$(printed other | grep -c "with a grant may change none")" = 2 ] || fail "it was not refused"

echo "== a pod for which no slot is free"
pod third batch "exec work /jobs/third.run 100"
until_true "the third pod is not refused a node" eval \
    'kubectl --namespace ml get events | grep "third.*Insufficient xsched.dev/batch"'
is_in third Pending || fail "the third pod is not pending"
removed other
until_true "the third pod does not get the slot" ended third
printed third | grep -q "right 100" || fail "the third pod's work is wrong"
until_true "grants of pods that ended stay" has_grants "pod ml/train/main"
removed third

echo "== the kubelet, the plugin and the daemon are killed in turn"
end kubelet
goes_on train
kubelet_
until_true "the plugin does not register again" said plugin registered 6
until_true "the node does not offer the resources again" offers
goes_on train
has "pod ml/train/main" .priority -100 || fail "the pod has lost its grant"
end plugin
goes_on train
until_true "the node offers what nothing gives" eval '! offers'
plugin
until_true "the node does not offer the resources of a new plugin" offers
end xschedd
goes_on train
daemon
until_true "the daemon that came back does not know the pod" has "pod ml/train/main" .priority -100
goes_on train
pod again batch "exec work /jobs/again.run"
until_true "a pod after the kills has no grant" has "pod ml/again/main" .priority -100
goes_on again
is_in train Running || fail "the batch pod has ended: $(of_pod train .status)"
# Its program ends, and with it the container. A kubelet of this age that has started again may
# take a minute until it removes a pod.
rm "$F/jobs/again.run"
until_true "its grant stays" has_grants "pod ml/train/main"
rm "$F/jobs/train.run"
until_true "grants stay" has_grants ""
end plugin

echo "== the driver publishes to an API server with its type, under its own rights"
kubectl apply -f "$HERE/node/crds.yaml" -f "$HERE/deploy/base/namespace.yaml"
kubectl apply --namespace xsched -f "$HERE/deploy/base/rbac.yaml"
account=/api/v1/namespaces/xsched/serviceaccounts/xsched-kubernetes/token
until_true "the type is not there" kubectl get resourceslices
token=$(echo '{"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}' |
    kubectl create --raw $account -f - | jq -r .status.token)
configuration "$token" >"$F/etc/driver"
driver
until_true "it is not published" is_slice .spec.pool.generation 1
is_slice '.spec.devices[0] | "\(.name) \(.capacity.share.value)"' "nvidia-0 100" ||
    fail "the slice is wrong: $(slice .)"
[ "$(slice '.metadata.ownerReferences[0].uid')" = \
    "$(kubectl get node node --output jsonpath='{.metadata.uid}')" ] || fail "it is not the node's"
kubectl delete resourceslice node-gpu.xsched.dev
until_true "it is not published again" is_slice .spec.pool.generation 1
# Until the driver watches, a change may be one that it has not seen: both are fine.
kubectl patch resourceslice node-gpu.xsched.dev --type merge --patch '{"spec": {"devices": []}}'
until_true "it is not corrected" is_slice '"\(.spec.pool.generation) \(.spec.devices[0].name)"' \
    "2 nvidia-0"
end driver
version=$(slice .metadata.resourceVersion)
before=$(grep -c "published generation" "$F/log/driver")
driver
until_true "a new driver does not publish" said driver "published generation" $((before + 1))
is_slice .metadata.resourceVersion "$version" || fail "a driver that starts changes its slice"
end driver
kubectl delete resourceslice node-gpu.xsched.dev
driver
until_true "a driver that starts does not publish" is_slice .spec.pool.generation 1
end apiserver
server
kubectl delete resourceslice node-gpu.xsched.dev
until_true "it does not watch an API server that came back" is_slice .spec.pool.generation 1
until_true "the kubelet does not answer the driver" said driver "does not register this driver" 1
end driver
echo "kubernetes: an urgent pod beside a batch pod, slots, rights, three kills, ends, slices"
