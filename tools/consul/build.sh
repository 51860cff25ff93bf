#!/bin/sh
# Builds the Consul that the tests run against, once, and prints its path.
#
# It is built from the versions pinned in go.mod beside this file. The first build
# takes some minutes; later calls take none.
set -eu

root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tools/once.sh"

build() {
	# -mod=mod may rewrite go.mod: it gets a copy.
	cp "$root/tools/consul/go.mod" "$root/tools/consul/go.sum" "$work/"
	(cd "$work" && GOWORK=off GOFLAGS=-mod=mod GONOSUMDB='github.com/hashicorp/consul/*' \
		go build -o out github.com/hashicorp/consul) >&2
}

version=$(pinned github.com/hashicorp/consul "$root/tools/consul/go.mod")
once consul "$version"
echo "$out"
