#!/bin/bash
# Checks the container devices with a real Podman, as root, and a daemon.
#
#   check.sh FOLDER
#
# FOLDER has bin/xsched and bin/xschedd, lib/xsched with the interposers, emulated/libcuda.so.1 and
# work. The devices are in /run/cdi meanwhile, where Podman looks. It leaves nothing behind that
# runs.
set -euo pipefail

F=$1
SPECIFICATION=/run/cdi/xsched-check.json
export XSCHED_SOCKET=$F/run/socket
mkdir -p "$F"/{run,log,jobs}
chmod 755 "$F/run"

podman() {
    command podman --root "$F/storage" --runroot "$F/runroot" --tmpdir "$F/tmp" --runtime runc \
        --cgroup-manager cgroupfs --storage-driver vfs --events-backend none "$@"
}
stop() {
    rm -f "$F"/jobs/*.run
    podman rm --all --force --time 1 >/dev/null 2>&1 || true
    kill_noted xschedd
    rm -f "$SPECIFICATION" "${SPECIFICATION%.json}.preload"
    umount -R "$F/storage" 2>/dev/null || true
}
. "$(dirname "$0")/../check/common.sh"
trap stop EXIT

bash "$(dirname "$0")/../check/image.sh" "$F" >"$F/log/image" 2>&1 || fail "no files for an image"
podman import "$F/image.tar" localhost/check >"$F/log/import" 2>&1 || fail "no image"

printf '[policy]\nfill_pauses = false\n[[tenant]]\nname = "default"\npriority = -200\npriority_max = -200\n' >"$F/run/xschedd.toml"
daemon
xsched cdi generate --out "$SPECIFICATION"
xsched doctor --for podman | grep "^Podman: set up" || fail "the doctor: $(xsched doctor --for podman)"

# $1: name of the container, $2: its class; further options, and a command of the shell.
container() {
    local name=$1 class=$2
    shift 2
    echo 0 >"$F/jobs/$name.run"
    podman run --name "$name" --network none --ulimit nofile=1024:1024 --ulimit nproc=1000:1000 \
        --device "xsched.dev/class=$class" -v "$F/jobs:/jobs" -v "$F/emulated:/emulated:ro" \
        -e LD_LIBRARY_PATH=/emulated "${@:1:$#-1}" localhost/check sh -c "${!#}"
}
grant_of() { echo "container $(podman inspect --format '{{.Id}}' "$1" | cut -c -12)"; }

echo "== an urgent container beside a batch container"
container one batch --detach "exec work /jobs/one.run" >"$F/log/one"
one=$(grant_of one)
until_true "the batch container has no grant" has "$one" .priority -100
[ "$(of_process "$one" .uid)" = 0 ] || fail "it is not root's"
goes_on one
container two interactive "exec work /jobs/two.run 4000" >"$F/log/two" 2>&1
grep -q "^right 4000" "$F/log/two" || fail "the urgent container's work is wrong"
was_held "$one" || fail "the batch container was not held"
goes_on one
echo "the batch container was held $(of_process "$one" .holds) times for $(of_process "$one" .held_ms) ms"
podman rm two >/dev/null
until_true "the urgent container's grant stays" has_grants "$one"

echo "== a container that wants more than it may have"
container three batch -e LD_PRELOAD=libm.so.6 -e XSCHED_AUTO_XQUEUE_PRIORITY=200 --detach "
echo preload \$LD_PRELOAD
xsched ctl grant --pid 1 --class interactive && echo RAISED
xsched ctl revoke '$one' && echo RAISED
exec work /jobs/three.run" >/dev/null
three=$(grant_of three)
until_true "the third container has no grant" has "$three" .priority -100
goes_on three
podman logs three >"$F/log/three" 2>&1
grep -q RAISED "$F/log/three" && fail "the container raised its class"
[ "$(grep -c "with a grant may change none" "$F/log/three")" = 2 ] || fail "it was not refused"
grep -q "^preload libm.so.6$" "$F/log/three" || fail "the variable of the image was replaced"
podman rm --force --time 1 three >/dev/null

echo "== the daemon and what watches the container are killed"
kill -9 "$(cat "$F/run/xschedd.pid")"
goes_on one
daemon
until_true "the container is not known to the daemon that came back" has "$one" .priority -100
kill -9 "$(podman inspect --format '{{.State.ConmonPid}}' one)"
goes_on one
has "$one" .priority -100 || fail "the container has lost its grant"

echo "== nothing stays"
rm "$F/jobs/one.run"
# Nothing tells Podman that the container has ended, so the first attempt only waits.
until_true "the container stays" podman rm --force --time 1 --ignore one
until_true "grants stay" has_grants ""
echo "podman: an urgent container beside a batch container, rights, two kills, ends"
