#!/bin/sh
# The plan's experiments in its five phases, by xsched-lab, with its result files in a folder.
#
#     run_all_tests.sh [FOLDER] [OPTION...]
#
# The folder is the present one by default, and gets test_results. Options go to xsched-lab, such as
# --quick. The variable XSCHED_LAB names the command `xsched-lab`, HAL the device (cuda, hip or host),
# PHASES some of the phases (1 2 3 4 5), and PYTHON the Python.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 2
folder=${1:-.}
[ $# -gt 0 ] && shift
: "${XSCHED_LAB:=xsched-lab}" "${HAL:=cuda}" "${PHASES:=1 2 3 4 5}" "${PYTHON:=python3}"

if ! "$XSCHED_LAB" --version > /dev/null 2>&1; then
    echo "run_all_tests.sh: there is no command $XSCHED_LAB; name it in XSCHED_LAB" >&2
    exit 2
fi
mkdir -p "$folder/test_results" || exit 2

ended=0
# Exit code 1 is a missed goal or a failed cell, which the results say; 2 ends everything.
try() {
    "$@" || code=$?
    [ "${code:=0}" -lt 2 ] || exit "$code"
    [ "$code" -le "$ended" ] || ended=$code
    code=0
}
# Rows of real programs, and benches with kernels that spin.
rows() {
    rows=$1
    shift
    try "$XSCHED_LAB" all --only "$rows" --resume --report "$folder" --hal "$HAL" --python "$PYTHON" "$@"
}
benches() {
    hal=$1 benches=$2
    shift 2
    try "$XSCHED_LAB" bench all --only "$benches" --report "$folder/benches" --hal "$hal" "$@"
    cp "$folder/benches"/[0-9]*.json "$folder/test_results/"
}

for phase in $PHASES; do
    echo "=== phase $phase"
    case $phase in
        1) rows 7.1.1,7.4.1,7.4.2 "$@" ;;
        2) rows 7.2.1,7.2.2,8.1.1 "$@" ;;
        3) benches "$HAL" 7.3.1,7.3.2 "$@" && rows 7.3.3,8.2.1 "$@" ;;
        # Interrupts need AMD's kernel driver, or the processor as a device.
        4) case $HAL in
            hip) benches kfd 4.1.1 "$@" ;;
            *) benches "$HAL" 4.1.1 "$@" ;;
        esac ;;
        5) rows 8.3.1,8.3.2,4.2.1 "$@" ;;
        *) echo "run_all_tests.sh: there is no phase $phase; there are 1 to 5" >&2; exit 2 ;;
    esac
done
"$PYTHON" "$here/collect_results.py" "$folder/test_results" || exit 2
exit "$ended"
