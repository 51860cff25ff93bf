#!/bin/sh
# Builds the Consul that the tests run against, once, and prints its path.
#
# It is built from the versions pinned in go.mod beside this file, into
# ${GPUBOARD_CACHE:-.cache} of this repository, under a lock, and appears there
# whole or not at all. The first build takes some minutes; later calls take none.
set -eu

here=$(cd "$(dirname "$0")" && pwd)
cache=${GPUBOARD_CACHE:-$(cd "$here/../.." && pwd)/.cache}
version=$(sed -n 's|^[[:space:]]*github.com/hashicorp/consul v\([0-9][0-9.]*\).*|\1|p' "$here/go.mod")
[ -n "$version" ] || { echo "build.sh: no version of Consul in $here/go.mod" >&2; exit 1; }
out=$cache/consul-$version

mkdir -p "$cache"
exec 9>"$cache/consul.lock"
flock 9
if [ ! -x "$out" ]; then
	work=$(mktemp -d "$cache/.consul.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	# -mod=mod may rewrite go.mod: it gets a copy.
	cp "$here/go.mod" "$here/go.sum" "$work/"
	(cd "$work" && GOWORK=off GOFLAGS=-mod=mod GONOSUMDB='github.com/hashicorp/consul/*' \
		go build -o consul github.com/hashicorp/consul) >&2
	mv "$work/consul" "$out"
fi
echo "$out"
