#!/bin/sh
# Builds a release: static binaries, for each a list of what is linked in (SBOM,
# CycloneDX), manual pages, completions, deb and rpm, and a list of checksums.
#
#   deploy/package/build.sh                    everything, into dist/
#   deploy/package/build.sh linux/amd64        one target
#
# VERSION      what the program calls itself (default: the tag of this commit)
# DIST         where to (default: dist)
# PACKAGES     "deb rpm", or "" for none; they need the Go module proxy once
#
# The same commit and the same Go give the same bytes: no paths and no times
# are built in, and packages take their time from SOURCE_DATE_EPOCH, which is
# the commit's when nobody sets it.
set -eu

cd "$(dirname "$0")/../.."
dist=${DIST:-dist}
packages=${PACKAGES-deb rpm}
version=${VERSION:-$(git describe --tags --exact-match 2>/dev/null || echo "0.0.0+g$(git rev-parse --short=12 HEAD)")}
version=${version#v}
: "${SOURCE_DATE_EPOCH:=$(git log -1 --format=%ct)}"
export SOURCE_DATE_EPOCH
# What somebody has set for their own builds is not part of a release.
export GOFLAGS=-mod=readonly GOWORK=off GOAMD64=v1 GOARM64=v8.0 GOPPC64=power8 LC_ALL=C TZ=UTC
umask 022
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 linux/ppc64le darwin/amd64 darwin/arm64

mkdir -p "$dist"
rm -rf "$dist/man" "$dist/completions" "$dist"/*.deb "$dist"/*.rpm
day=$(date -u -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%d 2>/dev/null || date -u -r "$SOURCE_DATE_EPOCH" +%Y-%m-%d)
# What writes manual pages and bills of materials.
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT
go build -trimpath -buildvcs=false -o "$tools/" ./deploy/package/manpage
go -C tools build -trimpath -buildvcs=false -o "$tools/" ./sbom
"$tools/manpage" "$dist" "$version" "$day"
gzip -9n "$dist"/man/*.1

# What the container needs beside the program, where this machine has it.
if [ -r /etc/ssl/certs/ca-certificates.crt ]; then
	cp /etc/ssl/certs/ca-certificates.crt "$dist/ca-certificates.crt"
fi

for target in "$@"; do
	os=${target%/*} arch=${target#*/}
	echo "building $os/$arch $version" >&2
	mkdir -p "$dist/$os-$arch"
	CGO_ENABLED=0 GOOS=$os GOARCH=$arch go build -trimpath -buildvcs=false \
		-ldflags "-s -w -buildid= -X gpuboard/internal/cli.release=$version" -o "$dist/$os-$arch/gpuboard" .
	"$tools/sbom" "$dist/$os-$arch/gpuboard" "$version" deploy/package/licences.md >"$dist/$os-$arch/gpuboard.cdx.json"
	[ "$os" = linux ] && [ -n "$packages" ] || continue
	nfpm=$(deploy/package/nfpm.sh)
	for kind in $packages; do
		GPUBOARD_DIST=$dist GPUBOARD_ARCH=$arch GPUBOARD_VERSION=$version \
			"$nfpm" package --config deploy/package/nfpm.yaml --packager "$kind" --target "$dist/" >&2
	done
done

cd "$dist"
find . -type f \( -name gpuboard -o -name '*.cdx.json' -o -name '*.deb' -o -name '*.rpm' \) | LC_ALL=C sort | sed 's|^\./||' | xargs sha256sum >SHA256SUMS
