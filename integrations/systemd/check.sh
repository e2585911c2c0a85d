#!/bin/bash
# Checks the units of the daemon with a real systemd, in a container that systemd-nspawn boots.
#
#   check.sh FOLDER
#
# FOLDER has bin/xsched and bin/xschedd, lib/xsched with the interposers, emulated/libcuda.so.1,
# work, and units as daemon/systemd has them. Only root runs it. The container has this machine's
# systemd, shell and C library. It leaves nothing behind that runs.
set -euo pipefail

F=$1
ROOT=$F/root
# Packages of Debian whose files the container has.
PACKAGES=(systemd libnss-systemd dash coreutils)
# Time for a program to go on after its daemon was stopped by a signal, in milliseconds. The lease
# is 100; the watchdog, of 10000, was told the last time at most a third of that before.
GOES_ON_MS=4000
mkdir -p "$F/log" "$ROOT"
NSPAWN=
LEADER=
HIERARCHIES=()
for folder in /sys/fs/cgroup /sys/fs/cgroup/{systemd,unified}; do
    [ ! -e "$folder/cgroup.procs" ] || HIERARCHIES+=("$folder")
done

stop() {
    # The first process of the container ends with all others of it.
    [ -z "$LEADER" ] || kill -9 "$LEADER" 2>/dev/null || true
    [ -z "$NSPAWN" ] || kill -9 "$NSPAWN" 2>/dev/null || true
    for hierarchy in "${HIERARCHIES[@]}"; do
        for _ in $(seq 50); do
            find "$hierarchy/xsched-check" -depth -type d -exec rmdir {} + 2>/dev/null || true
            [ -e "$hierarchy/xsched-check" ] || break
            sleep 0.1
        done
    done
}
. "$(dirname "$0")/../check/common.sh"
JOBS=$ROOT/jobs
describe() { inside journalctl --no-pager --lines 40; }
trap stop EXIT
inside() { nsenter --target "$LEADER" --all -- "$@"; }
xsched() { inside xsched "$@"; }
of_process() { xsched ps --json | jq -e -r --argjson p "$1" ".processes[] | select(.priority == \$p) | $2"; }
stands_still() {
    local before
    before=$(cat "$JOBS/$1.run")
    sleep 0.3
    is_above "$1" "$before" && fail "$1 goes on" || true
}
# A property of a unit, as systemd says it.
of_unit() { inside systemctl show --value --property "$2" "$1"; }
is_unit() { [ "$(of_unit "$1" "$2")" = "$3" ]; }
daemon_pid() { of_unit xschedd.service MainPID; }
is_new() { [ "$(daemon_pid)" != "$1" ] && is_unit xschedd.service ActiveState active; }
are_scheduled() {
    until_true "$1: the batch program is not held" was_held -100
    until_true "$1: the urgent program is not there" has 100 .name work
    goes_on batch
    goes_on interactive
}
now_ms() { date +%s%3N; }
signal() { inside systemctl kill --kill-whom=main --signal="$1" xschedd.service; }

# The files of the packages, with the libraries that their programs need.
container() {
    mkdir -p "$ROOT"/{usr/bin,usr/sbin,usr/lib,usr/lib64,etc,var,run,proc,sys,dev,tmp,jobs,emulated}
    for name in bin sbin lib lib64; do ln -s "usr/$name" "$ROOT/$name"; done
    dpkg -L "${PACKAGES[@]}" | grep -v -e "^/usr/share/\(doc\|man\|locale\)" -e "^/\.$" |
        tar -C / --create --no-recursion --ignore-failed-read --files-from - 2>/dev/null |
        tar -C "$ROOT" --extract --keep-directory-symlink
    install -D -t "$ROOT/usr/bin" "$F/bin/xsched" "$F/bin/xschedd" "$F/work"
    install -D -t "$ROOT/usr/lib/xsched" "$F"/lib/xsched/*
    install -D -t "$ROOT/emulated" "$F/emulated/libcuda.so.1"
    { find "$ROOT" -type f \( -perm -100 -o -name '*.so*' \) -exec ldd {} + 2>/dev/null || true; } |
        awk '$2 == "=>" && $3 ~ "^/" { print $3 } $1 ~ "^/.*[^:]$" { print $1 }' |
        grep -v "^$F" | sort -u |
        while read -r library; do
            [ -e "$ROOT/$library" ] || install -D "$library" "$ROOT/$library"
        done
}

# What the package has, and two programs of a class each.
install_package() {
    install -D -m 644 -t "$ROOT/usr/lib/systemd/system" "$F"/units/xschedd.*
    install -D -m 644 -t "$ROOT/usr/lib/systemd/user" "$F"/units/user/xschedd.*
    mkdir -p "$ROOT/etc/xsched"
    configuration 100
    printf '[Service]\nEnvironment=LD_LIBRARY_PATH=/emulated\nExecStart=/usr/bin/xsched run --class %%i -- /usr/bin/work /jobs/%%i.run\n' \
        >"$ROOT/etc/systemd/system/work@.service"
    # With a number, this is no first boot, on which systemd would enable all that there is.
    tr -d - </proc/sys/kernel/random/uuid >"$ROOT/etc/machine-id"
    ln -s /dev/null "$ROOT/etc/systemd/system/getty.target"
    printf 'root:x:0:0::/:/bin/sh\nnobody:x:65534:65534::/:/bin/false\n' >"$ROOT/etc/passwd"
    printf 'root:x:0:\nnogroup:x:65534:\n' >"$ROOT/etc/group"
    printf 'passwd: files systemd\ngroup: files systemd\n' >"$ROOT/etc/nsswitch.conf"
    cp /usr/lib/os-release "$ROOT/usr/lib/"
    systemctl --quiet --root="$ROOT" enable xschedd.service 2>>"$F/log/enable"
}
# $1: the most that a process may ask for. An urgent program that pauses holds the others all the
# same.
configuration() {
    printf '[policy]\nfill_pauses = false\n[[tenant]]\nname = "all"\npriority_max = %s\n' "$1" \
        >"$ROOT/etc/xsched/xschedd.toml"
}
boot() {
    (
        # Its cgroups are in one that goes with it, in the hierarchies that systemd needs.
        for hierarchy in "${HIERARCHIES[@]}"; do
            mkdir -p "$hierarchy/xsched-check"
            echo $BASHPID >"$hierarchy/xsched-check/cgroup.procs"
        done
        exec systemd-nspawn --quiet --register=no --keep-unit --machine=xsched-check --directory="$ROOT" \
            --boot --private-network --console=pipe systemd.unit=multi-user.target
    ) </dev/null >"$F/log/console" 2>&1 &
    NSPAWN=$!
    until_true "the container has no first process" pgrep --parent "$NSPAWN"
    LEADER=$(pgrep --parent "$NSPAWN")
    until_true "systemd does not run" is_up
}
is_up() { inside systemctl is-active multi-user.target; }

container
install_package
boot

echo "== the units"
for scope in --system --user; do
    said=$(inside env XDG_RUNTIME_DIR=/tmp systemd-analyze $scope verify --man=no xschedd.service xschedd.socket 2>&1) ||
        fail "systemd-analyze $scope verify: $said"
    [ -z "$said" ] || fail "systemd-analyze $scope verify: $said"
done
# Active, for a unit that notifies, means that the daemon said that it is ready.
is_unit xschedd.service Type notify || fail "it does not notify"
is_unit xschedd.service ActiveState active || fail "it was not ready when the machine was"
# A field of the daemon's process.
of_daemon() { awk -v f="$1:" '$1 == f { print $2 }' "$PROC/status"; }
PROC=/proc/$LEADER/root/proc/$(daemon_pid)
[ "$(of_daemon Uid)" -ge 61184 ] || fail "it has no user of its own: $(of_daemon Uid)"
[ "$(of_daemon CapBnd)" = 0000000000000000 ] || fail "it has capabilities"
[ "$(of_daemon NoNewPrivs)$(of_daemon Seccomp)" = 12 ] || fail "no filter of system calls"
[ "$(readlink "$PROC/ns/net")" != "$(readlink "/proc/$LEADER/ns/net")" ] || fail "it has a network"
touch "$PROC/root/etc/written" 2>/dev/null && fail "it could write files"
inside systemd-analyze security --no-pager xschedd.service | tail -n 1

echo "== an urgent program beside a batch program"
for class in batch interactive; do
    echo 0 >"$ROOT/jobs/$class.run"
    inside systemctl start "work@$class.service"
done
are_scheduled "at first"
group=/sys/fs/cgroup/systemd$(of_unit work@batch.service ControlGroup)
xsched ctl grant --cgroup "$group" --class batch --name "unit batch"
has -100 .tenant "unit batch" || fail "the batch unit has no grant"

echo "== reloads"
configuration 50
inside systemctl reload xschedd.service
until_true "a reload has no effect" has 50 .name work
configuration '"much"'
inside systemctl reload xschedd.service 2>/dev/null && fail "a wrong configuration is taken"
is_unit xschedd.service ActiveState active || fail "a wrong configuration ends it"
inside journalctl --quiet --unit xschedd.service | grep -q "xschedd.toml.*priority_max" || fail "the wrong line is not named"
has 50 .name work || fail "what counted before does not count on"
configuration 100
inside systemctl reload xschedd.service
are_scheduled "after reloads"

echo "== upgrades under load"
for round in 1 2 3; do
    was=$(daemon_pid)
    # As dpkg replaces a file, and what the package does then.
    cp "$F/bin/xschedd" "$ROOT/usr/bin/xschedd.dpkg-new"
    mv "$ROOT/usr/bin/xschedd.dpkg-new" "$ROOT/usr/bin/xschedd"
    inside sh -c 'for i in 1 2 3 4 5 6; do xsched ps >/dev/null; done' 2>"$F/log/meanwhile" &
    start=$(now_ms)
    inside systemctl try-restart xschedd.service
    until_true "there is no new daemon" is_new "$was"
    until_true "the batch program does not come back" has -100 .tenant "unit batch"
    until_true "the urgent program does not come back" has 100 .name work
    took=$(($(now_ms) - start))
    wait $!
    # What the old daemon had taken and not answered ends with it. Others wait for the new one.
    grep -v "has closed the connection" "$F/log/meanwhile" && fail "a connection was refused"
    are_scheduled "after upgrade $round"
    echo "upgrade $round: both programs were back after $took ms"
done
is_unit xschedd.service NRestarts 0 || fail "systemd counts upgrades as failures"

echo "== a daemon that hangs"
was=$(daemon_pid)
xsched ctl hold "$(of_process -100 .pid)"
sleep 0.2
stands_still batch
before=$(cat "$ROOT/jobs/batch.run")
start=$(now_ms)
signal STOP
until_true "the program stays held" is_above batch "$before"
took=$(($(now_ms) - start))
[ $took -lt $GOES_ON_MS ] || fail "the program goes on after $took ms only"
echo "a program that was held goes on $took ms after its daemon was stopped"
goes_on interactive
[ "$(daemon_pid)" = "$was" ] || fail "the watchdog came too early to tell"
until_true "the watchdog does not come" is_new "$was"
inside journalctl --quiet --unit xschedd.service | grep "Watchdog timeout" || fail "it was not the watchdog"
are_scheduled "after the watchdog"

echo "== a daemon that is killed"
was=$(daemon_pid)
signal KILL
goes_on batch
goes_on interactive
until_true "it is not started again" is_new "$was"
is_unit xschedd.service NRestarts 2 || fail "systemd counts $(of_unit xschedd.service NRestarts) failures"
are_scheduled "after it was killed"
has_grants "unit batch" || fail "the grant went with the daemon"

echo "== a stop, and activation by the socket"
was=$(daemon_pid)
inside systemctl stop xschedd.service 2>/dev/null
# The socket listens on, and programs connect again.
until_true "its programs do not start it" is_new "$was"
are_scheduled "after a stop of the service"
inside systemctl stop xschedd.socket xschedd.service
inside test -e /run/xsched/socket && fail "the socket stays"
sleep 0.5
is_unit xschedd.service ActiveState inactive || fail "it runs without its socket"
is_unit xschedd.socket ActiveState inactive || fail "the socket is still there for systemd"
goes_on batch
goes_on interactive
inside systemctl start xschedd.socket
until_true "no connection starts it" is_unit xschedd.service ActiveState active
are_scheduled "after activation"
has_grants "unit batch" || fail "the grant went with the stop"

echo "== metrics on loopback"
printf '\n[metrics]\nlisten = "127.0.0.1:9464"\n' >>"$ROOT/etc/xsched/xschedd.toml"
install -D -t "$ROOT/etc/systemd/system/xschedd.service.d" "$F/units/loopback.conf"
inside systemctl daemon-reload
inside systemctl restart xschedd.service
metrics() {
    nsenter --target "$LEADER" --net bash -c 'exec 3<>/dev/tcp/127.0.0.1/9464
        printf "GET /metrics HTTP/1.0\r\n\r\n" >&3; cat <&3'
}
counts_both() { metrics | grep "^xsched_processes{.*} 2"; }
until_true "two processes are not counted" counts_both

echo "== nothing stays"
rm "$ROOT"/jobs/*.run
for class in batch interactive; do
    until_true "$class does not end" is_unit "work@$class.service" ActiveState inactive
    is_unit "work@$class.service" Result success || fail "the work of $class is wrong"
done
until_true "the unit's grant stays" has_grants ""
inside systemctl poweroff 2>>"$F/log/poweroff"
is_gone() { ! kill -0 "$NSPAWN"; }
until_true "the container stays" is_gone
echo "systemd: units, an urgent program beside a batch program, reloads, upgrades, a watchdog, a kill, a stop, activation, metrics, an end"
