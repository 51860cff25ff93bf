#!/usr/bin/env bash
# The whole gate: formatting, vet, staticcheck, functions that nothing calls,
# every test with the race detector, known vulnerabilities. It installs what the
# tests need when it runs as root on Debian, and says what to install when it does
# not.
#
#   ./check.sh          everything
#   ./check.sh --long   the same, and 30 s of fuzzing for each parser, a thousand nodes at
#                       once, 10,000 cycles of each loop, faults of calls that only read:
#                       an hour or two
#   ./check.sh ./sitegen one package
set -euo pipefail
cd "$(dirname "$0")"

long=false
packages=()
for arg in "$@"; do
	case $arg in
	--long) long=true ;;
	-*) echo "check.sh: unknown option $arg" >&2; exit 2 ;;
	*) packages+=("$arg") ;;
	esac
done
[ ${#packages[@]} -gt 0 ] || packages=(./...)

say() { printf '\n== %s\n' "$*"; }

# What the tests use, and the Debian package it comes in.
declare -A need=(
	[sshd]=openssh-server [ssh]=openssh-client [nginx]=nginx-light [chromium]=chromium
	[cron]=cron [ps]=procps [strace]=strace [sqlite3]=sqlite3
	[apache2]=apache2 [htpasswd]=apache2-utils [caddy]=caddy [lighttpd]=lighttpd [promtool]=prometheus
	[systemd-analyze]=systemd [groff]=groff-base [rpm]=rpm [logrotate]=logrotate [ansible-playbook]=ansible-core [curl]=curl [jq]=jq
)
export PATH="$PATH:/usr/sbin:/sbin"
# From 9.8 on sshd punishes addresses. Where it is older, one is built.
punishes() { [ "$(printf '%s\n' 9.8 "$(sshd -V 2>&1 | sed -n 's/.*OpenSSH_\([0-9.]*\).*/\1/p' | head -n 1)" | sort -V | head -n 1)" = 9.8 ]; }
if ! punishes; then
	need[cc]=gcc
	need[make]=make
fi
missing=()
for program in "${!need[@]}"; do
	command -v "$program" >/dev/null 2>&1 || missing+=("${need[$program]}")
done
[ -n "$(find /usr/share/fonts -name '*.ttf' -print -quit 2>/dev/null)" ] || missing+=(fonts-dejavu-core)
[ -e /usr/lib/lighttpd/mod_deflate.so ] || missing+=(lighttpd-mod-deflate)
if ! punishes; then
	[ -e /usr/include/zlib.h ] || missing+=(zlib1g-dev)
	[ -e /usr/include/openssl/ssl.h ] || missing+=(libssl-dev)
fi
if [ ${#missing[@]} -gt 0 ]; then
	if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
		say "installing ${missing[*]}"
		# The programs are for the tests: no package shall start a service.
		policy=/usr/sbin/policy-rc.d
		if [ -e $policy ]; then
			policy=
		else
			printf '#!/bin/sh\nexit 101\n' >$policy
			chmod 755 $policy
			trap 'rm -f "$policy"' EXIT
		fi
		apt-get update -qq
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
		if [ -n "$policy" ]; then
			rm -f "$policy"
			trap - EXIT
		fi
	else
		echo "check.sh: some tests will be skipped; to run them all: sudo apt-get install ${missing[*]}" >&2
	fi
fi
# In CI a test that cannot run has failed.
if [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ]; then
	export GPUBOARD_REQUIRE_ALL=1
fi

say "gofmt"
unformatted=$(git ls-files -co --exclude-standard '*.go' | xargs gofmt -l)
if [ -n "$unformatted" ]; then
	echo "$unformatted"
	echo "check.sh: run gofmt -w on these" >&2
	exit 1
fi

say "go vet"
go vet "${packages[@]}"

say "staticcheck"
go tool -modfile=tools/go.mod staticcheck "${packages[@]}"

if [ "${packages[*]}" = ./... ]; then
	say "deadcode"
	# Of the packages that the program is made of; those for tests are not among them.
	product=$(go list -deps -f '{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}' . | paste -sd '|')
	dead=$(go tool -modfile=tools/go.mod deadcode -filter "^($product)\$" ./...)
	if [ -n "$dead" ]; then
		echo "$dead"
		echo "check.sh: only tests call these functions, or nobody does: delete them, and let the tests call what the program calls" >&2
		exit 1
	fi
fi

if [ "${GPUBOARD_REQUIRE_ALL:-}" = 1 ] && [ -z "${GPUBOARD_CONSUL:-}" ]; then
	say "Consul, which the first time takes minutes that no test should wait for"
	GPUBOARD_CONSUL=$(tools/consul/build.sh)
	export GPUBOARD_CONSUL
fi

if [ "${GPUBOARD_REQUIRE_ALL:-}" = 1 ] && [ -z "${GPUBOARD_SSHD:-}" ] && ! punishes; then
	say "an OpenSSH server of today"
	# The archive keeps a version for as long as a release of Debian has it.
	GPUBOARD_SSHD=$(tools/openssh/build.sh) || {
		echo "not tested: how a node takes the penalties of OpenSSH 9.8 and later"
		GPUBOARD_SSHD=none
	}
	export GPUBOARD_SSHD
fi

if $long; then
	export GPUBOARD_ALL_CALLS=1
fi

say "go test -race"
go test -race -timeout 30m "${packages[@]}"

if $long; then
	say "what takes longer: whole fleets, 10,000 cycles, sshd's own patience, a release without a cache"
	GPUBOARD_LONG=1 go test -count=1 -timeout 120m -run 'Soak|AllArrive|Vanished|Punished|Release' ./internal/e2e ./internal/cli ./internal/node ./publisher

	say "fuzzing, 30 s each"
	go list "${packages[@]}" | while read -r package; do
		go test -list '^Fuzz' "$package" | grep '^Fuzz' | while read -r target; do
			echo "$package $target"
			go test -run '^$' -fuzz "^$target\$" -fuzztime 30s "$package"
		done
	done
fi

say "govulncheck"
# The database is a file server; without it there is nothing to check against.
if go tool -modfile=tools/go.mod govulncheck "${packages[@]}" >/tmp/govulncheck.$$ 2>&1; then
	tail -n 3 /tmp/govulncheck.$$
elif grep -qE 'vuln\.go\.dev|fetching vulnerabilities|dial tcp|no such host' /tmp/govulncheck.$$; then
	echo "not checked: the vulnerability database cannot be reached from here"
else
	cat /tmp/govulncheck.$$
	rm -f /tmp/govulncheck.$$
	exit 1
fi
rm -f /tmp/govulncheck.$$

say "all is well"
