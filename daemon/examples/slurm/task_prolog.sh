#!/bin/sh
# Slurm's TaskProlog: the programs of a task are scheduled with the class of the job's partition.
# In slurm.conf: TaskProlog=/etc/slurm/task_prolog.sh

# The partitions of the cluster.
case "${SLURM_JOB_PARTITION:-}" in
    interactive*) class='interactive' ;;
    batch*) class='batch' ;;
    *) class='normal' ;;
esac

# Slurm takes each line `export NAME=value` into the task's environment. Without xsched there are
# none, and the task runs on.
xsched env --class "$class" --for slurm 2>/dev/null || true
