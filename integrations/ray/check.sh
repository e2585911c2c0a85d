#!/bin/bash
# Checks the package for Ray as users get it: with mypy, pytest, and a real Ray of two nodes.
#
#   check.sh FOLDER
#
# FOLDER has bin/xsched and bin/xschedd, lib/xsched with the interposers, emulated/libcuda.so.1, and
# ray, a copy of this folder. Only root runs it: the nodes are of two users. It leaves nothing
# behind that runs.
set -euo pipefail

F=$1
export XSCHED_SOCKET=$F/run/socket PYTHONDONTWRITEBYTECODE=1
# What Ray's agent of a node needs, and what `ray[serve]` has that a replica needs.
AGENT="aiohttp aiohttp_cors"
SERVE="starlette fastapi pydantic uvicorn grpcio grpcio-reflection numpy"
mkdir -p "$F"/{run,log,jobs}
chmod 1777 "$F/jobs"

# Ends all that was started, which has the socket of this check in its environment, and removes
# cgroups of workers.
stop() {
    local code=$?
    for folder in /proc/[0-9]*; do
        [ "${folder#/proc/}" = $$ ] || [ "${folder#/proc/}" = "$BASHPID" ] ||
            ! grep -qsz "^XSCHED_SOCKET=$XSCHED_SOCKET$" "$folder/environ" ||
            kill -9 "${folder#/proc/}" 2>/dev/null || true
    done
    [ $code = 0 ] || tail -n 30 "$F"/log/* 2>/dev/null || true
    sleep 0.2
    find /sys/fs/cgroup -depth -type d -name 'xsched-ray-*' -exec rmdir {} \; 2>/dev/null || true
    exit $code
}
trap stop EXIT

# Debian's own Python is one that each user can start.
/usr/bin/python3 -m venv "$F/venv"
export PATH=$F/venv/bin:$PATH
install() { pip install --quiet --disable-pip-version-check "$@"; }
# shellcheck disable=SC2086
install "$F/ray[test]" $AGENT $SERVE
cd "$F/ray"
mypy xsched_ray tests check.py
# From here on, the installed one.
rm -rf build xsched_ray
pytest --quiet -p no:cacheprovider
cd "$F"
python -u "$F/ray/check.py" "$F"
