#!/bin/sh
# The plan's two BERT scripts, kernel by kernel and as graphs, with their records in a folder.
#
#     run_xsched_test.sh [FOLDER] [OPTION...]
#
# The folder is test_results by default; options go to both scripts, such as --requests 100. The
# variable XSCHED names the command `xsched`, PYTHON the Python, and MODES some of `eager graph`.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 2
folder=${1:-test_results}
[ $# -gt 0 ] && shift
: "${XSCHED:=xsched}" "${PYTHON:=python3}" "${MODES:=eager graph}"
export XSCHED

if ! "$XSCHED" --version > /dev/null 2>&1; then
    echo "run_xsched_test.sh: there is no command $XSCHED; name it in XSCHED" >&2
    exit 2
fi
mkdir -p "$folder" || exit 2

failed=0
for mode in $MODES; do
    case $mode in
        eager) option='' ;;
        graph) option=--graph ;;
        *) echo "run_xsched_test.sh: there is no mode $mode; there are eager and graph" >&2; exit 2 ;;
    esac
    # Without an option it is no argument.
    "$XSCHED" run -- "$PYTHON" "$here/test_multi_priority_bert.py" --xsched ${option:+"$option"} \
        --out "$folder/5.4_multi_priority_bert_$mode.json" "$@" || failed=$?
    "$PYTHON" "$here/test_xsched_integration.py" --test both ${option:+"$option"} \
        --out "$folder/5.4_xsched_integration_$mode.json" "$@" || failed=$?
done
"$PYTHON" "$here/collect_results.py" "$folder" || exit 2
exit "$failed"
