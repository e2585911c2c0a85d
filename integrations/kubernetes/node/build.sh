#!/bin/bash
# Gets the programs of a cluster of one node from Debian: Kubernetes 1.20.2, built from the source
# package of Debian 12, its etcd, and containerd 1.7 of Debian 13, the first one with container
# devices.
#
#   build.sh FOLDER
#
# It takes at most 13 minutes of a processor and 3 GB, of which 0.3 GB stay, goes on where an
# earlier run in FOLDER ended, and does nothing if the programs are in FOLDER/bin.
set -euo pipefail

mkdir -p "$1"/bin
F=$(cd "$1" && pwd)
S=$F/kubernetes
[ ! -e "$F/bin/done" ] || exit 0
mkdir -p "$F"/{apt/partial,archives/partial,unpacked,home}

# Lists of its own, as few machines have those of sources.
for of in "deb-src http://deb.debian.org/debian bookworm" \
    "deb http://deb.debian.org/debian bookworm" "deb http://deb.debian.org/debian trixie"; do
    echo "$of main"
done >"$F/sources.list"
from_debian() {
    apt-get -o Dir::Etc::SourceList="$F/sources.list" -o Dir::Etc::SourceParts=- \
        -o Dir::State::Lists="$F/apt" -o Dir::Cache="$F/archives" -o APT::Sandbox::User=root \
        -o Acquire::Languages=none "$@"
}
if [ ! -e "$F/downloaded" ]; then
    from_debian update
    (cd "$F/archives" && from_debian source --download-only kubernetes/bookworm &&
        from_debian download {etcd-server,golang-1.19-go,golang-1.19-src}/bookworm \
            golang-github-modern-go-reflect2-dev/bookworm containerd/trixie)
    rm -rf "$S" && mkdir "$S"
    tar -xzf "$F"/archives/kubernetes_*.orig.tar.gz -C "$S" --strip-components=1
    for package in "$F"/archives/*.deb; do dpkg-deb -x "$package" "$F/unpacked"; done
    cp "$F"/unpacked/usr/bin/{etcd,containerd,containerd-shim-runc-v2,ctr} "$F/bin/"
    # The version in the source reads maps in a way that Go 1.18 and later do not allow, which
    # custom resources need.
    rm -r "$S/vendor/github.com/modern-go/reflect2"
    cp -r "$F/unpacked/usr/share/gocode/src/github.com/modern-go/reflect2" \
        "$S/vendor/github.com/modern-go/"
    # Kubelets before 1.26 give the path of a socket as the name of its server, which the gRPC of
    # the plugin refuses. This is their later change.
    sed -i 's/grpc.WithInsecure()/&, grpc.WithAuthority("localhost")/' \
        "$S/pkg/kubelet/cm/devicemanager/endpoint.go" \
        "$S/pkg/kubelet/pluginmanager/operationexecutor/operation_generator.go"
    mkdir -p "$S/.go/src/k8s.io"
    ln -s ../../.. "$S/.go/src/k8s.io/kubernetes"
    touch "$F/downloaded"
fi

export GOROOT=$F/unpacked/usr/lib/go-1.19 GOPATH=$S/.go GOCACHE=$F/cache HOME=$F/home
export PATH=$GOROOT/bin:$PATH GO111MODULE=off CGO_ENABLED=0 GOFLAGS=
cd "$S/.go/src/k8s.io/kubernetes"

# The only generated file that the source package has not.
if [ ! -e pkg/generated/openapi/zz_generated.openapi.go ]; then
    go build -o "$F/openapi-gen" k8s.io/kubernetes/vendor/k8s.io/kube-openapi/cmd/openapi-gen
    packages=$(cd vendor && grep -rl --include='*.go' '^// *+k8s:openapi-gen=' k8s.io/*/ |
        grep -vE '^k8s.io/(code-generator|sample-)|/testdata/' | xargs -n 1 dirname | sort -u |
        sed 's,^,k8s.io/kubernetes/vendor/,' | paste -sd ,)
    "$F/openapi-gen" --logtostderr -i "$packages" -p k8s.io/kubernetes/pkg/generated/openapi \
        -O zz_generated.openapi -r "$F/violations" \
        -h vendor/k8s.io/code-generator/hack/boilerplate.go.txt
fi

version=k8s.io/kubernetes/vendor/k8s.io/component-base/version
flags="-s -w -X $version.gitVersion=v1.20.2 -X $version.gitMajor=1 -X $version.gitMinor=20"
# Without what talks to clouds and to Docker.
go build -tags providerless,dockerless -ldflags "$flags" -o "$F/bin/" \
    k8s.io/kubernetes/cmd/{kube-apiserver,kube-scheduler,kubelet,kubectl}
cd "$F"
rm -rf apt archives unpacked home kubernetes cache openapi-gen violations sources.list downloaded
touch bin/done
