#!/bin/bash
# Checks the dashboard's expressions and the series with a real Prometheus, as root, and a daemon.
#
#   check.sh FOLDER
#
# FOLDER has bin/xsched and bin/xschedd, lib/xsched with the interposers, emulated/libcuda.so.1,
# work, grafana.json and prometheus with the files of Debian's package. It leaves nothing behind
# that runs.
set -euo pipefail

F=$1
export XSCHED_SOCKET=$F/run/socket
METRICS=127.0.0.1:19464
PROMETHEUS=127.0.0.1:19090
GROUPS_OF=/sys/fs/cgroup/systemd
[ -d "$GROUPS_OF" ] || GROUPS_OF=/sys/fs/cgroup
GROUP=$GROUPS_OF/xsched-check
# What Grafana puts for the interval of rates at this interval between scrapes: four of them.
SCRAPE=500ms
RATE=2s
mkdir -p "$F"/{run,log,jobs,data}

stop() {
    rm -f "$F"/jobs/*.run
    kill_noted prometheus xschedd
    remove_groups "$GROUP"
}
. "$(dirname "$0")/../check/common.sh"
trap stop EXIT
# $1: a path of the interface; further ones are parameters of the query.
ask() {
    local path=$1
    shift
    curl --silent --show-error --get "http://$PROMETHEUS/api/v1/$path" "$@"
}
# The result of an expression now, as JSON; fails if Prometheus does.
result() {
    ask query --data-urlencode "query=$1" >"$F/run/answer" || return 1
    jq -e -c 'select(.status == "success") | .data.result' "$F/run/answer"
}
count() { result "$1" | jq length; }
is_counted() { [ "$(count "$1")" = "$2" ]; }
has_some() { [ "$(count "$1")" -gt 0 ]; }
# As has_some, with a figure that is a number: a quantile of nothing is none.
has_figures() { result "$1" | jq -e 'any(.[]; .value[1] != "NaN")'; }
is_firing() { ask alerts | jq -e --arg n "$1" '.data.alerts[] | select(.labels.alertname == $n and .state == "firing")'; }
is_quiet() { ask alerts | jq -e '.data.alerts | length == 0'; }
# $1: a class, which is also the program's name here; $2: its cgroup; further options.
program() {
    local class=$1 group=$2
    shift 2
    echo 0 >"$F/jobs/$class.run"
    (
        echo $BASHPID >"$group/cgroup.procs"
        export LD_LIBRARY_PATH=$F/emulated
        exec "$F/bin/xsched" run --class "$class" "$@" -- "$F/work" "$F/jobs/$class.run"
    ) >"$F/log/$class" 2>&1 &
    disown
}
# An expression of the dashboard, as Grafana asks it with all nodes, GPUs and tenants.
filled() {
    local text=${1//\$__rate_interval/$RATE}
    for variable in node gpu tenant; do text=${text//\$$variable/.+}; done
    echo "$text"
}
expressions() { jq -r '.panels[] | .title as $t | .targets[]? | [$t, .expr] | @tsv' "$F/grafana.json"; }
# Asks all of them. Those of the table of unscheduled processes have no result: no driver lists
# processes on the emulated GPU, and both programs are scheduled.
dashboard() {
    local title expression asked=0
    while IFS=$'\t' read -r title expression; do
        expression=$(filled "$expression")
        result "$expression" >/dev/null || fail "$title: $(cat "$F/run/answer")"
        asked=$((asked + 1))
        case $expression in
            xsched_unscheduled_process_*) is_counted "$expression" 0 || fail "$title has a result" ;;
            *) until_true "$title has no figures: $expression" has_figures "$expression" ;;
        esac
    done < <(expressions)
    [ "$asked" = "$(grep -c '"expr"' "$F/grafana.json")" ] || fail "$asked expressions were asked"
    echo "$asked expressions of the dashboard"
}
# Values of a variable of the dashboard, of its query `label_values(SERIES, LABEL)`.
values() {
    local query
    query=$(jq -r --arg n "$1" '.templating.list[] | select(.name == $n) | .query.query' "$F/grafana.json")
    query=${query#label_values(}
    query=$(filled "${query%)}")
    ask "label/${query##*, }/values" --data-urlencode "match[]=${query%, *}" | jq -r '.data | sort | join(";")'
}
has_values() { [ "$(values "$1")" = "$2" ]; }

cat >"$F/run/rules.yml" <<END
groups:
  - name: check
    rules:
      - alert: Down
        expr: up == 0
      - alert: Waits
        expr: rate(xsched_tenant_waited_seconds_total{tenant="unit batch"}[$RATE]) > 0.01
      - record: check:holds
        expr: sum by (tenant) (rate(xsched_tenant_holds_total[$RATE]))
END
cat >"$F/run/prometheus.yml" <<END
global: {scrape_interval: $SCRAPE, evaluation_interval: $SCRAPE}
rule_files: [rules.yml]
scrape_configs:
  - job_name: xschedd
    static_configs: [{targets: ["$METRICS"]}]
END
# An urgent program that pauses holds the others all the same.
cat >"$F/run/xschedd.toml" <<END
[policy]
fill_pauses = false
[metrics]
listen = "$METRICS"
END
daemon
"$F/prometheus/usr/bin/promtool" check config "$F/run/prometheus.yml" >"$F/log/promtool" || fail "its configuration"
"$F/prometheus/usr/bin/prometheus" --config.file="$F/run/prometheus.yml" --log.level=warn \
    --storage.tsdb.path="$F/data" --web.listen-address="$PROMETHEUS" \
    --web.console.libraries="$F/run" --web.console.templates="$F/run" 2>"$F/log/prometheus" &
echo $! >"$F/run/prometheus.pid"
disown
until_true "Prometheus has no daemon" is_counted 'up == 1' 1

echo "== two programs, and what the dashboard asks"
mkdir "$GROUP"
program interactive "$GROUPS_OF" --share 30
program batch "$GROUP"
xsched ctl grant --cgroup "$GROUP" --class batch --name "unit batch"
until_true "two processes are not counted" is_counted 'xsched_processes == 2' 1
until_true "the grant is no label" has_some 'xsched_process_priority{tenant="unit batch"} == -100'
until_true "the other is not there" has_some 'xsched_process_priority{tenant="default"} == 100'
until_true "there is no share" has_some 'xsched_process_wanted_share_ratio{tenant="default"} == 0.3'
dashboard
until_true "the variable tenant" has_values tenant "default;unit batch"
has_values node "$(hostname)" || fail "the variable node: $(values node)"
has_values gpu "$(xsched ps --json | jq -r '.processes[0].device')" || fail "the variable gpu: $(values gpu)"
until_true "a rule records nothing" has_some 'check:holds{tenant="unit batch"} > 0'
until_true "an alert of a program that waits does not fire" is_firing Waits
holds=$(xsched ps --json | jq '.processes[] | select(.priority == -100) | .holds')
until_true "it has other holds than the daemon" has_some "xsched_process_holds_total{tenant=\"unit batch\"} >= $holds"
error=$(ask targets | jq -r '.data.activeTargets[].lastError')
[ -z "$error" ] || fail "Prometheus cannot read all: $error"

echo "== the daemon is killed, and comes back"
kill -9 "$(cat "$F/run/xschedd.pid")"
until_true "an alert of a daemon that is gone does not fire" is_firing Down
is_counted 'xsched_process_priority' 0 || fail "series stay without a daemon"
daemon
until_true "two processes are not counted again" is_counted 'xsched_processes == 2' 1
until_true "the grant is no label again" has_some 'xsched_process_priority{tenant="unit batch"} == -100'
dashboard

echo "== programs end"
rm "$F/jobs/interactive.run"
until_true "series of a process stay" is_counted 'xsched_process_priority' 1
is_counted 'xsched_process_priority{tenant="unit batch"}' 1 || fail "the wrong series have ended"
until_true "alerts stay" is_quiet
rm "$F/jobs/batch.run"
until_true "processes stay" is_counted 'xsched_processes == 0' 1
is_counted '{__name__=~"xsched_process_.+"}' 0 || fail "series of processes stay"
rmdir "$GROUP"
# The daemon looks for grants that have ended when it is asked, or when something connects.
[ "$(xsched ps --json | jq -r '.grants | length')" = 0 ] || fail "the grant stays"
until_true "the grant's series stay" is_counted '{tenant="unit batch"}' 0
[ -s "$F/log/prometheus" ] && fail "Prometheus warns"
echo "prometheus: the dashboard's expressions, its variables, a grant as a label, alerts, a kill, ends"
