#!/bin/bash
# Makes image.tar, an image of this machine's shell and C library with the programs of a check.
#
#   image.sh FOLDER
#
# FOLDER has bin/xsched, lib/xsched, emulated and work.
set -euo pipefail

F=$1
mkdir -p "$F"/root/{bin,lib,lib64,emulated,proc,sys,dev,tmp,etc,run,jobs,usr/lib}
cp "$(command -v sh)" "$F/root/bin/sh"
cp "$(command -v cat)" "$F/bin/xsched" "$F/work" "$F/root/bin/"
export LD_LIBRARY_PATH=$F/emulated
ldd "$F"/root/bin/* "$F"/lib/xsched/* "$F"/emulated/* |
    awk '$2 == "=>" { print $3 } $1 ~ "^/.*[^:]$" { print $1 }' | grep -v "^$F" | sort -u |
    while read -r library; do cp --parents -L "$library" "$F/root/"; done
tar -C "$F/root" -cf "$F/image.tar" .
