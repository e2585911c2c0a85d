#!/bin/sh
# Builds XSched's own daemon and libraries for CUDA into a folder.
#
#   sh build.sh CHECKOUT HTTPLIB OUT
#
# CHECKOUT is a checkout of https://github.com/XpuOS/xsched without its submodules, HTTPLIB a folder
# with httplib.h of https://github.com/yhirose/cpp-httplib. Needs CMake, a compiler for C++20 and
# jsoncpp (libjsoncpp-dev). CUDA is not needed: the checkout has the headers. JOBS says how many
# files are compiled at a time, 2 unless given; WORK names a folder that is kept for the next build.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
[ $# = 3 ] || { sed -n '4p' "$0" >&2; exit 2; }
checkout=$(cd "$1" && pwd)
httplib=$(cd "$2" && pwd)
mkdir -p "$3"
out=$(cd "$3" && pwd)

if [ -n "${WORK:-}" ]; then
    mkdir -p "$WORK"
    work=$(cd "$WORK" && pwd)
    rm -rf "$work/source"
else
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
cp -a "$checkout" "$work/source"
rm -rf "$work/source/3rdparty"
mkdir "$work/source/3rdparty"
cp -a "$here/CMakeLists.txt" "$here/ipc" "$here/cuxtra" "$work/source/3rdparty"
# Another compiler than its authors' has other warnings.
find "$work/source" -name CMakeLists.txt -exec sed -i '/^ *-Werror$/d' {} +

origin="-Wl,-rpath,'\$ORIGIN'"
cmake -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DPLATFORM_CUDA=ON \
    -DHTTPLIB="$httplib" -DCMAKE_EXE_LINKER_FLAGS="$origin" -DCMAKE_SHARED_LINKER_FLAGS="$origin"
cmake --build "$work/build" --target preempt halcuda shimcuda xserver -- -j"${JOBS:-2}"

for name in xserver libpreempt.so libhalcuda.so libshimcuda.so; do
    cp "$(find "$work/build" -type f -name "$name")" "$out"
    strip --strip-unneeded "$out/$name"
done
json=$(ldd "$out/xserver" | awk '/libjsoncpp/ { print $3 }')
cp -L "$json" "$out"
