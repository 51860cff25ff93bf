#!/bin/sh
# Builds nfpm, in the version that tools/nfpm pins, once, and prints its path.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
cache=${GPUBOARD_CACHE:-$root/.cache}
version=$(sed -n 's|.*github.com/goreleaser/nfpm/v2 v\([0-9.]*\).*|\1|p' "$root/tools/nfpm/go.mod")
[ -n "$version" ] || { echo "nfpm.sh: no version of nfpm in tools/nfpm/go.mod" >&2; exit 1; }
out=$cache/nfpm-$version
mkdir -p "$cache"
exec 9>"$cache/nfpm.lock"
flock 9
if [ ! -x "$out" ]; then
	(cd "$root/tools/nfpm" && GOWORK=off CGO_ENABLED=0 go build -trimpath -o "$out.tmp" github.com/goreleaser/nfpm/v2/cmd/nfpm) >&2
	mv "$out.tmp" "$out"
fi
echo "$out"
