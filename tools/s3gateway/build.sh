#!/bin/sh
# Builds the S3 gateway that the tests copy sites to, once, and prints its path.
#
# It is built from the versions pinned in go.mod beside this file. The first build
# takes some minutes; later calls take none.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tools/once.sh"

build() {
	# -mod=mod may rewrite go.mod: it gets a copy.
	cp "$root/tools/s3gateway/go.mod" "$root/tools/s3gateway/go.sum" "$work/"
	(cd "$work" && GOWORK=off GOFLAGS=-mod=mod CGO_ENABLED=0 \
		go build -o out github.com/versity/versitygw/cmd/versitygw) >&2
}

version=$(pinned github.com/versity/versitygw "$root/tools/s3gateway/go.mod")
once versitygw "$version"
echo "$out"
