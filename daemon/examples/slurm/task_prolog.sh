#!/bin/sh
# Slurm's TaskProlog: the programs of a task are scheduled with the class of the job's partition.
# In slurm.conf: TaskProlog=/etc/slurm/task_prolog.sh

# The partitions of the cluster.
case "${SLURM_JOB_PARTITION:-}" in
    interactive*) class='interactive' ;;
    batch*) class='batch' ;;
    *) class='normal' ;;
esac

# Slurm takes each line `export NAME=value` into the task's environment. These are the variables
# with which `xsched run` starts a program. Without xsched there are none, and the task runs on.
xsched run --class "$class" -- env 2>/dev/null |
    sed -n -e 's/^LD_PRELOAD=/export &/p' -e 's/^XSCHED_[A-Z_]*=/export &/p'
