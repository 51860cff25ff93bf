#!/bin/sh
# Builds nfpm, in the version that tools/nfpm pins, once, and prints its path.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tools/once.sh"

build() {
	(cd "$root/tools/nfpm" && GOWORK=off CGO_ENABLED=0 go build -trimpath -o "$work/out" github.com/goreleaser/nfpm/v2/cmd/nfpm) >&2
}

version=$(pinned github.com/goreleaser/nfpm/v2 "$root/tools/nfpm/go.mod")
once nfpm "$version"
echo "$out"
