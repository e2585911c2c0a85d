# Functions of the checks of engines, for bash. F is the folder of the check, with bin and log; jobs
# write how far they are into files in JOBS. The configuration of the daemon is CONFIG.
# shellcheck shell=bash
JOBS=$F/jobs
CONFIG=$F/run/xschedd.toml

xsched() { "$F/bin/xsched" "$@"; }
# Says of an engine what helps where its check fails.
describe() { :; }
fail() {
    echo "FAILED: $*"
    tail -n 30 "$F"/log/* "$JOBS"/*.out 2>/dev/null || true
    describe || true
    xsched ps 2>/dev/null || true
    exit 1
}
# Waits for a command to succeed, 20 s at most.
until_true() {
    local what=$1 left=200
    shift
    while ! "$@" >/dev/null 2>&1; do
        left=$((left - 1))
        [ $left -gt 0 ] || fail "$what"
        sleep 0.1
    done
}
# Ends processes whose numbers are in files of these names.
kill_noted() {
    for name in "$@"; do
        [ ! -s "$F/run/$name.pid" ] || kill -9 "$(cat "$F/run/$name.pid")" 2>/dev/null || true
    done
}
# Removes cgroups whose paths match, once their last processes have ended.
remove_groups() {
    local group
    for group in $(find /sys/fs/cgroup -depth -type d -path "$1"); do
        for _ in $(seq 50); do
            rmdir "$group" 2>/dev/null || true
            [ -e "$group" ] || break
            sleep 0.1
        done
    done
}
# A field of the process of a tenant, as `xsched ps` has it.
of_process() { xsched ps --json | jq -e -r --arg t "$1" ".processes[] | select(.tenant == \$t) | $2"; }
has() { [ "$(of_process "$1" "$2")" = "$3" ]; }
has_grants() { [ "$(xsched ps --json | jq -r '[.grants[].name] | sort | join(";")')" = "$1" ]; }
was_held() { [ "$(of_process "$1" .holds)" -gt 3 ]; }
is_above() { [ "$(cat "$JOBS/$1.run")" -gt "$2" ]; }
goes_on() { until_true "$1 does not go on" is_above "$1" "$(cat "$JOBS/$1.run")"; }
daemon() {
    "$F/bin/xschedd" --socket "$XSCHED_SOCKET" --config "$CONFIG" "$@" 2>>"$F/log/xschedd" &
    echo $! >"$F/run/xschedd.pid"
    disown
    until_true "xschedd does not answer" "$F/bin/xsched" ps
}
