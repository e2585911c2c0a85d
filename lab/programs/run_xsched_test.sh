#!/bin/sh
# The plan's two BERT scripts, with their records in a folder.
#
#     run_xsched_test.sh [FOLDER] [OPTION...]
#
# The folder is test_results by default; options go to both scripts, such as --requests 100. The
# variable XSCHED names the command `xsched`, and PYTHON the Python.
set -u

here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 2
folder=${1:-test_results}
[ $# -gt 0 ] && shift
: "${XSCHED:=xsched}" "${PYTHON:=python3}"
export XSCHED

if ! "$XSCHED" --version > /dev/null 2>&1; then
    echo "run_xsched_test.sh: there is no command $XSCHED; name it in XSCHED" >&2
    exit 2
fi
mkdir -p "$folder" || exit 2

failed=0
"$XSCHED" run -- "$PYTHON" "$here/test_multi_priority_bert.py" --xsched \
    --out "$folder/5.4_multi_priority_bert.json" "$@" || failed=$?
"$PYTHON" "$here/test_xsched_integration.py" --test both \
    --out "$folder/5.4_xsched_integration.json" "$@" || failed=$?
echo "records: $folder/5.4_multi_priority_bert.json $folder/5.4_xsched_integration.json"
exit "$failed"
