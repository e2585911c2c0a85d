#!/bin/bash
# Checks what the container devices do to a container with a real containerd, as root, and a daemon.
#
#   check.sh FOLDER
#
# FOLDER has bin/xsched and bin/xschedd, lib/xsched with the interposers, emulated/libcuda.so.1,
# work, and containerd with the files of Debian's package. containerd knows container devices from
# 1.7 on, and for pods alone. Here the devices of `xsched cdi generate` are put into a container's
# configuration as their standard says: variables, mounts and the hook. It leaves nothing behind
# that runs.
set -euo pipefail

F=$1
SPECIFICATION=$F/run/xsched.json
NAMESPACE=xsched-check
export XSCHED_SOCKET=$F/run/socket PATH=$F/containerd/usr/bin:$PATH
mkdir -p "$F"/{run,log,jobs,etc}
chmod 755 "$F/run"

ctr() { command ctr --address "$F/run/containerd.socket" --namespace "$NAMESPACE" "$@"; }
# The processes of shims, by the folder of their containerd.
shims() { pgrep -f -- "containerd-shim-runc-v2 .*-address $F/run/containerd.socket" || true; }
stop() {
    rm -f "$F"/jobs/*.run
    for task in $(ctr --timeout 5s tasks list --quiet 2>/dev/null); do
        ctr --timeout 5s tasks delete --force "$task" >/dev/null 2>&1 || true
    done
    kill_noted xschedd containerd
    for shim in $(shims); do kill -9 "$shim" 2>/dev/null || true; done
    for group in $(find /sys/fs/cgroup -depth -type d -path '*/xsched-check*'); do
        while read -r process; do kill -9 "$process" 2>/dev/null || true; done <"$group/cgroup.procs"
    done
    remove_groups '*/xsched-check*'
    # What runc notes of containers that it could not delete.
    rm -rf "/run/containerd/runc/$NAMESPACE"
    findmnt --raw --noheadings --output TARGET | sort -r | while read -r mount; do
        [[ $mount != "$F"/* ]] || umount "$mount" 2>/dev/null || true
    done
}
. "$(dirname "$0")/../check/common.sh"
describe() { ctr tasks list; }
trap stop EXIT
engine() {
    containerd --config "$F/etc/containerd.toml" 2>>"$F/log/containerd" &
    echo $! >"$F/run/containerd.pid"
    disown
    until_true "containerd does not answer" ctr version
}

# $1: name of the container, $2: its class, $3: a command of the shell. Prints its configuration.
configuration() {
    jq -n --arg name "$1" --arg class "$2" --arg command "$3" --arg folder "$F" \
        --slurpfile base "$F/etc/config.json" --slurpfile devices "$SPECIFICATION" '
        $devices[0] as $all | ($all.devices[] | select(.name == $class).containerEdits) as $own
        | [$all.containerEdits, $own] as $edits
        | def bound: {source: .hostPath, destination: .containerPath, type: "bind", options};
        def given(from; to; options): {hostPath: from, containerPath: to, options: options} | bound;
        $base[0]
        | .root = {path: ($folder + "/root"), readonly: true}
        | .process.terminal = false
        | .process.args = ["sh", "-c", $command]
        | .process.env += ["LD_LIBRARY_PATH=/emulated"] + [$edits[].env // [] | .[]]
        | .mounts += [given($folder + "/jobs"; "/jobs"; ["rbind"]),
            given($folder + "/emulated"; "/emulated"; ["rbind", "ro"])]
            + [$edits[].mounts // [] | .[] | bound]
        | .hooks = ([$edits[].hooks // [] | .[]] | group_by(.hookName)
            | map({key: .[0].hookName, value: map({path, args, env})}) | from_entries)
        | .linux.cgroupsPath = "/xsched-check/" + $name'
}
# Further words are options of `ctr run`.
container() {
    local name=$1
    echo 0 >"$F/jobs/$name.run"
    configuration "$name" "$2" "$3" >"$F/etc/$name.json"
    shift 3
    ctr run --config "$F/etc/$name.json" --fifo-dir "$F/run/fifo" "$@" "$name"
}
is_gone() { ! ctr tasks list --quiet | grep -qx "$1"; }
remove() {
    ctr tasks kill --signal SIGKILL "$1" 2>/dev/null || true
    until_true "the container $1 stays" ctr tasks delete --force "$1"
    ctr containers delete "$1"
}

cat >"$F/etc/containerd.toml" <<END
version = 2
root = "$F/state"
state = "$F/run/containerd"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.internal.v1.opt"]
[grpc]
address = "$F/run/containerd.socket"
END
bash "$(dirname "$0")/../check/image.sh" "$F" >"$F/log/image" 2>&1 || fail "no files for a container"
(cd "$F/etc" && runc spec)
# An urgent program that pauses holds the others all the same.
cat >"$F/run/xschedd.toml" <<END
[policy]
fill_pauses = false
[[tenant]]
name = "default"
priority = -200
priority_max = -200
END
daemon
xsched cdi generate --out "$SPECIFICATION" >"$F/log/generate" 2>&1 || fail "no devices"
engine
echo "containerd $(ctr version | awk '/Server/ { is = 1 } is && /Version/ { print $2 }')"

echo "== an urgent container beside a batch container"
container one batch "exec work /jobs/one.run" --detach >"$F/log/one" 2>&1 || fail "it does not start"
until_true "the batch container has no grant" has "container one" .priority -100
goes_on one
# By a file of its shim: ctr loses what a container writes last, now and then.
container two interactive "exec work /jobs/two.run 4000" --rm --log-uri "file://$F/log/two" ||
    fail "no urgent container"
until_true "the urgent container's work is wrong" grep -q "^right 4000" "$F/log/two"
was_held "container one" || fail "the batch container was not held: $(of_process "container one" .holds)"
goes_on one
echo "the batch container was held $(of_process "container one" .holds) times for $(of_process "container one" .held_ms) ms"
until_true "the urgent container's grant stays" has_grants "container one"

echo "== a container that wants more than it may have"
container three batch "
export XSCHED_AUTO_XQUEUE_PRIORITY=200
xsched ctl grant --pid 1 --class interactive && echo RAISED
xsched ctl revoke 'container one' && echo RAISED
exec work /jobs/three.run" --detach --log-uri "file://$F/log/three" || fail "it does not start"
until_true "the third container has no grant" has "container three" .priority -100
goes_on three
grep -q RAISED "$F/log/three" && fail "the container raised its class"
[ "$(grep -c "with a grant may change none" "$F/log/three")" = 2 ] || fail "it was not refused"
remove three
until_true "its grant stays" has_grants "container one"

echo "== the daemon, containerd and a shim are killed in turn"
kill -9 "$(cat "$F/run/xschedd.pid")"
goes_on one
daemon
until_true "the container is not known to the daemon that came back" has "container one" .priority -100
kill -9 "$(cat "$F/run/containerd.pid")"
goes_on one
has "container one" .priority -100 || fail "the container has lost its grant"
engine
until_true "containerd has forgotten the container" eval '! is_gone one'
goes_on one
has "container one" .priority -100 || fail "the container has lost its grant"
container four batch "exec work /jobs/four.run" --detach >"$F/log/four" 2>&1 || fail "none starts any more"
until_true "a container after the kills has no grant" has "container four" .priority -100
goes_on four
socket=$(cat "$F/run/containerd/io.containerd.runtime.v2.task/$NAMESPACE/four/address")
shim=$(pgrep -f -- "containerd-shim-runc-v2 .*-id four .*-address $F/run/containerd.socket")
kill -9 "$shim"
rm "${socket#unix://}"
# containerd ends a container whose shim is gone, and the other one is not touched.
until_true "the container without a shim stays" is_gone four
until_true "its grant stays" has_grants "container one"
goes_on one

echo "== nothing stays"
rm "$F"/jobs/one.run
until_true "the container stays" ctr tasks delete one
until_true "grants stay" has_grants ""
ctr containers delete one four
until_true "shims stay" eval '[ -z "$(shims)" ]'
echo "containerd: an urgent container beside a batch container, rights, three kills, ends"
