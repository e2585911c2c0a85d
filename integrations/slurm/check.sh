#!/bin/bash
# Checks the plugin with a real Slurm: two nodes on loopback that are this machine, and a daemon.
#
#   check.sh FOLDER
#
# FOLDER has bin/xsched and bin/xschedd, lib with the interposers, emulated/libcuda.so.1,
# spank_xsched.so, job_submit.lua and work. Only root runs it. It leaves nothing behind that runs.
set -euo pipefail

F=$1
HOST=$(hostname -s)
export SLURM_CONF=$F/etc/slurm.conf XSCHED_SOCKET=$F/run/socket
mkdir -p "$F"/{etc,run,log,state,database,spool/n1,spool/n2,jobs}
chmod 755 "$F" "$F"/{etc,run,log}
chmod 1777 "$F/jobs"

# Ends all that was started. Steps outlive their node's agent; they have its environment.
stop() {
    rm -f "$F"/jobs/*.run
    kill_noted slurmctld slurmd.n1 slurmd.n2 slurmdbd mariadb xschedd munged
    for step in $(pgrep -x slurmstepd); do
        ! grep -qsz "^SLURM_CONF=$SLURM_CONF$" "/proc/$step/environ" || kill -9 "$step" || true
    done
    find /sys/fs/cgroup -depth -type d -path '*/slurm_n[12]*' -exec rmdir {} \; 2>/dev/null || true
}
. "$(dirname "$0")/../check/common.sh"
CONFIG=$F/etc/xschedd.toml
trap stop EXIT
is_pending() { scontrol -o show job "$1" | grep -q JobState=PENDING; }
has_share() { xsched ps --json | jq -e --arg t "$1" --argjson s "$2" '.processes[] | select((.tenant | startswith($t)) and .share == $s)'; }
has_both() { [ "$(xsched ps --json | jq -r --arg t "$1" '[.processes[] | select(.tenant == $t) | .priority] | sort | join(",")')" = "$2" ]; }
has_count() { [ "$(xsched ps --json | jq '[.processes[] | select(.priority == -100)] | length')" = "$1" ]; }
is_stopped() { grep -q "^State:.T" "/proc/$(of_process "$1" .pid)/status"; }
is_empty() { [ -z "$(ls "$1")" ]; }
are_up() { [ "$(sinfo -h -N -t idle -p batch -o %N | wc -l)" = 2 ]; }
runs() { squeue -h -o %T | grep -q RUNNING; }
# Jobs are a user's who is not root.
as_user() { setpriv --reuid=nobody --regid=nogroup --clear-groups "$@"; }

listens() { : <"/dev/tcp/127.0.0.1/$1"; }
manage() { sacctmgr --immediate --quiet "$@" >>"$F/log/sacctmgr.log" 2>&1 || fail "sacctmgr $*"; }
# Users, accounts and QoS: Slurm keeps them in a database.
accounts() {
    mariadb-install-db --no-defaults --user=root --datadir="$F/database" --skip-test-db \
        --auth-root-authentication-method=normal >"$F/log/mariadb.log" 2>&1
    # One statement a line.
    printf "CREATE USER slurm@127.0.0.1 IDENTIFIED BY 'slurm';\nGRANT ALL ON *.* TO slurm@127.0.0.1;\n" >"$F/etc/users.sql"
    mariadbd --no-defaults --user=root --datadir="$F/database" --socket="$F/run/mariadb.socket" \
        --pid-file="$F/run/mariadb.pid" --bind-address=127.0.0.1 --port=16820 --skip-name-resolve \
        --innodb-buffer-pool-size=16M --init-file="$F/etc/users.sql" 2>>"$F/log/mariadb.log" &
    disown
    until_true "the database does not answer" test -s "$F/run/mariadb.pid"
    slurmdbd
    # sacctmgr hangs if it comes too early.
    until_true "slurmdbd does not listen" listens 16819
    manage add cluster check
    manage add qos quick,slow
    manage add account all cluster=check
    for user in root nobody; do
        manage add user $user account=all qos=normal,quick,slow defaultqos=normal
    done
}
node() { slurmd -N "$1"; }
controller() { slurmctld; }

cat >"$F/etc/slurm.conf" <<END
ClusterName=check
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=16817
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$F/run/munge.socket,cred_expire=8
StateSaveLocation=$F/state
SlurmdSpoolDir=$F/spool/%n
SlurmctldPidFile=$F/run/slurmctld.pid
SlurmdPidFile=$F/run/slurmd.%n.pid
SlurmctldLogFile=$F/log/slurmctld.log
SlurmdLogFile=$F/log/slurmd.%n.log
ProctrackType=proctrack/cgroup
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
MpiDefault=none
GresTypes=gpu,shard,mps
PlugStackConfig=$F/etc/plugstack.conf
JobSubmitPlugins=lua
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=127.0.0.1
AccountingStoragePort=16819
AccountingStoragePass=$F/run/munge.socket
AccountingStorageEnforce=qos
KillWait=2
SchedulerParameters=sched_interval=1
SlurmdParameters=config_overrides
NodeName=n1 NodeHostname=$HOST NodeAddr=127.0.0.1 Port=17001 CPUs=8 RealMemory=500 Gres=gpu:1,shard:4,mps:100
NodeName=n2 NodeHostname=$HOST NodeAddr=127.0.0.1 Port=17002 CPUs=8 RealMemory=500 Gres=gpu:1,shard:4,mps:100
PartitionName=batch Nodes=n[1-2] Default=YES MaxTime=INFINITE State=UP
PartitionName=urgent Nodes=n[1-2] MaxTime=INFINITE State=UP
END
cat >"$F/etc/gres.conf" <<END
NodeName=n[1-2] Name=gpu File=/dev/null
NodeName=n[1-2] Name=shard Count=4 File=/dev/null
NodeName=n[1-2] Name=mps Count=100 File=/dev/null
END
cat >"$F/etc/cgroup.conf" <<END
CgroupAutomount=no
END
cat >"$F/etc/plugstack.conf" <<END
optional $F/spank_xsched.so xsched=$F/bin/xsched socket=$XSCHED_SOCKET state=$F/grants default=normal default.batch=batch max.batch=batch max.qos:quick=interactive max.qos:slow=batch
END
cat >"$F/etc/slurmdbd.conf" <<END
AuthType=auth/munge
AuthInfo=socket=$F/run/munge.socket
DbdHost=$HOST
DbdAddr=127.0.0.1
DbdPort=16819
SlurmUser=root
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort=16820
StorageUser=slurm
StoragePass=slurm
LogFile=$F/log/slurmdbd.log
PidFile=$F/run/slurmdbd.pid
END
chmod 600 "$F/etc/slurmdbd.conf"
cp "$F/job_submit.lua" "$F/etc/"
# Processes without a grant are the least urgent ones.
printf '[[tenant]]\nname = "default"\npriority = -200\npriority_max = -200\n' >"$F/etc/xschedd.toml"
dd if=/dev/urandom of="$F/etc/munge.key" bs=1024 count=1 2>/dev/null
chmod 600 "$F/etc/munge.key"

/usr/sbin/munged --force --key-file="$F/etc/munge.key" --socket="$F/run/munge.socket" \
    --pid-file="$F/run/munged.pid" --log-file="$F/log/munged.log" --seed-file="$F/run/munged.seed"
daemon
accounts
controller
node n1
node n2
until_true "the nodes are not up" are_up
xsched doctor --for slurm | grep "^Slurm: set up" || fail "the doctor: $(xsched doctor --for slurm)"

# $1: name of the job. Its program runs until FOLDER/jobs/NAME.run is gone, or COUNT times.
script() {
    echo 0 >"$F/jobs/$1.run"
    chmod 666 "$F/jobs/$1.run"
    printf '#!/bin/sh\nexport LD_LIBRARY_PATH=%s\n%s\n' "$F/emulated" "$2" >"$F/jobs/$1.sh"
    chmod 755 "$F/jobs/$1.sh"
}
submit() {
    local name=$1
    shift
    as_user sbatch --parsable -w n1 -n1 --gres=shard:1 -D / -o "$F/jobs/$name.out" "$@" "$F/jobs/$name.sh"
}

# A program that ends, and the time that it took in milliseconds.
timed() { echo "start=\$(date +%s%3N); $F/work $F/jobs/$1.run 4000; echo ms \$((\$(date +%s%3N) - start))"; }
ms_of() { awk '$1 == "ms" { print $2 }' "$F/jobs/$1.out"; }

echo "== an urgent job beside a batch job on a GPU that both have a shard of"
script alone "$(timed alone)"
submit alone -p urgent --xsched=interactive >"$F/log/alone"
until_true "the job alone does not end" grep -q "^ms" "$F/jobs/alone.out"
script one "exec $F/work $F/jobs/one.run"
one="job $(submit one -p batch)"
until_true "the batch job has no grant" has "$one" .priority -100
goes_on one
script two "$(timed two)"
two="job $(submit two -p urgent --xsched=interactive,share=30)"
until_true "the urgent job has no grant" has "$two" .priority 100
[ "$(of_process "$two" .share)" = 30 ] || fail "the urgent job has no share"
until_true "the batch job is not held" was_held "$one"
[ "$(xsched ps --json | jq -r '[.processes[].device] | unique | length')" = 1 ] || fail "two GPUs"
until_true "the urgent job does not end" grep -q "^ms" "$F/jobs/two.out"
grep -q "^right 4000" "$F/jobs/two.out" || fail "the urgent job's work is wrong"
goes_on one
until_true "the urgent job's grant stays" has_grants "$one"
echo "the urgent job took $(ms_of two) ms, alone $(ms_of alone) ms"
echo "the batch job was held $(of_process "$one" .holds) times for $(of_process "$one" .held_ms) ms"

echo "== a job that wants more than it may have"
script three "
export XSCHED_AUTO_XQUEUE_PRIORITY=200
$F/bin/xsched ctl grant --pid \$\$ --class interactive && echo RAISED
$F/bin/xsched ctl revoke 'job '\$SLURM_JOB_ID && echo RAISED
$F/work $F/jobs/three.run 300
$F/bin/xsched ctl set \$\$ --priority 200 && echo RAISED
srun --xsched=interactive $F/work $F/jobs/three.run
"
three="job $(submit three -p batch)"
until_true "the job's first program does not end" grep -q "^right 300" "$F/jobs/three.out"
until_true "the job's step is not there" has "$three" .priority -100
goes_on three
grep -q RAISED "$F/jobs/three.out" && fail "the job raised its class"
[ "$(grep -c "only root may grant\|with a grant may change none" "$F/jobs/three.out")" = 2 ] || fail "it was not refused"
grep -q "the job has class batch, and --xsched=interactive asks for more" "$F/jobs/three.out" || fail "it was not told"
rm "$F/jobs/three.run"
until_true "the job's grant stays" has_grants "$one"
preloaded=$(LD_PRELOAD=libm.so.6 as_user srun -p batch -D / sh -c 'echo $LD_PRELOAD')
case $preloaded in
    libm.so.6:*/libshimcuda.so*) ;;
    *) fail "what the user preloads is not in front: $preloaded" ;;
esac
as_user srun -p batch --xsched=lots true 2>"$F/jobs/wrong.out" && fail "a wrong class is taken"
grep -q "say interactive, normal or batch" "$F/jobs/wrong.out" || fail "it was not told what to say"
is_refused() {
    local reason=$1
    shift
    as_user "$@" >"$F/jobs/wrong.out" 2>&1 && fail "not refused: $*"
    grep -q -e "$reason" "$F/jobs/wrong.out" || fail "no reason: $* said $(cat "$F/jobs/wrong.out")"
}
limit="--xsched=interactive: partition batch allows batch at most"
printf '#!/bin/sh\n#SBATCH --xsched=interactive,share=5\ntrue\n' >"$F/jobs/asks.sh"
is_refused "$limit" sbatch -D / "$F/jobs/asks.sh"
is_refused "$limit" sbatch -p urgent,batch --xsched=interactive -D / "$F/jobs/one.sh"
is_refused "$limit" srun -p batch --xsched=interactive -D / true
is_refused "$limit" salloc -p batch --xsched=interactive true
is_refused "--xsched=normal: QoS slow allows batch at most" sbatch -p urgent --qos=slow --xsched=normal -D / "$F/jobs/one.sh"
script quick "exec $F/work $F/jobs/quick.run"
quick=$(submit quick -p batch --qos=quick --xsched=interactive)
until_true "a QoS does not raise what its partition allows" has "job $quick" .priority 100
rm "$F/jobs/quick.run"
# Root moves a job after it was taken: the node lowers it.
script moved "exec $F/work $F/jobs/moved.run"
moved=$(submit moved -p urgent --xsched=interactive --hold)
scontrol update "job=$moved" partition=batch
scontrol release "$moved"
until_true "a job that was moved is not lowered" has "job $moved" .priority -100
rm "$F/jobs/moved.run"
until_true "grants stay" has_grants "$one"

echo "== a GPU, a part of one by mps, steps, an array"
for gres in gpu:1 mps:50; do
    script gres "exec $F/work $F/jobs/gres.run 300"
    as_user srun -p urgent -w n2 --gres=$gres --xsched=interactive,share=40 -D / "$F/jobs/gres.sh" >"$F/jobs/gres.out" 2>&1 &
    until_true "a job with $gres has no grant" has_share "job" 40
    wait $! || fail "a job with $gres ends with $?"
    grep -q "^right 300" "$F/jobs/gres.out" || fail "a job with $gres is wrong"
done
script low "exec $F/work $F/jobs/low.run"
script steps "srun --overlap --xsched=batch $F/jobs/low.sh & $F/work $F/jobs/steps.run; wait"
steps="job $(submit steps -p urgent --xsched=interactive)"
until_true "a step does not have less than its job" has_both "$steps" -100,100
rm "$F/jobs/low.run" "$F/jobs/steps.run"
script array "exec $F/work $F/jobs/array.run"
array=$(submit array -p batch --array=0-1)
until_true "the tasks of an array have no grants" has_count 3
rm "$F/jobs/array.run"
until_true "grants stay" has_grants "$one"
[ "$(grep -c ^right "$F/jobs/array.out")" -ge 1 ] || fail "the array's work is wrong"

echo "== a job is suspended, resumed and queued again"
script urgent "exec $F/work $F/jobs/urgent.run"
number=$(submit urgent -p urgent --xsched=interactive)
until_true "the urgent job has no grant" has "job $number" .priority 100
goes_on urgent
scontrol suspend "$number"
until_true "the job is not suspended" is_stopped "job $number"
still=$(cat "$F/jobs/urgent.run")
goes_on one
goes_on one
[ "$(cat "$F/jobs/urgent.run")" = "$still" ] || fail "a job that is suspended goes on"
scontrol resume "$number"
goes_on urgent
folder=$(xsched ps --json | jq -r --arg n "job $number" '.grants[] | select(.name == $n) | .to.cgroup')
# A cgroup that stays when its job ends, so that only the epilog can end the grant.
mkdir "$folder/kept"
scontrol requeue "$number"
until_true "the epilog does not revoke" has_grants "$one"
rmdir "$folder/kept"
# The controller would start it two minutes later; the node has to be done with it before.
until_true "the job is not queued again" is_pending "$number"
scontrol update "jobid=$number" starttime=now+5seconds
until_true "the job does not run again under its grant" has "job $number" .priority 100
goes_on urgent

echo "== the node's agent, the daemon and the controller are killed in turn"
both="$(printf '%s\njob %s' "$one" "$number" | sort | paste -sd';')"
kill -9 "$(cat "$F/run/slurmd.n1.pid")"
goes_on one
goes_on urgent
has_grants "$both" || fail "grants went with slurmd"
node n1
kill -9 "$(cat "$F/run/xschedd.pid")"
goes_on one
goes_on urgent
daemon
until_true "the job is not known to the daemon that came back" has "$one" .priority -100
until_true "nor is the urgent one" has "job $number" .priority 100
goes_on one
kill -9 "$(cat "$F/run/slurmctld.pid")"
goes_on one
goes_on urgent
controller
until_true "the controller has forgotten the job" runs
has "$one" .priority -100 || fail "the job has lost its grant"
has "job $number" .priority 100 || fail "the urgent job has lost its grant"
# The urgent job's process ends while it holds the batch job.
kill -9 "$(of_process "job $number" .pid)"
until_true "the urgent job's grant stays" has_grants "$one"
goes_on one

echo "== nothing stays"
scancel "${one#job }"
until_true "grants stay" has_grants ""
until_true "files of jobs stay" is_empty "$F/grants"
echo "slurm: an urgent job beside a batch job, rights, refusals, gpu, mps, shard, steps, an array, suspension, requeue, three kills, ends"
