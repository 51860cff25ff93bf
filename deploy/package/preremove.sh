#!/bin/sh
# Before removal, and not before an upgrade: deb says "upgrade", rpm says 1.
set -e
case ${1:-} in
upgrade | 1) exit 0 ;;
esac
[ -z "${DPKG_ROOT:-}" ] || exit 0

if [ -d /run/systemd/system ]; then
	systemctl disable --now gpuboard-node.service gpuboard-watch.service gpuboard-receive.service gpuboard-serve.service \
		gpuboard-collect.timer gpuboard-generate.timer 2>/dev/null || :
fi
# What cron started would run on without its file.
for exe in /proc/[0-9]*/exe; do
	if [ "$exe" -ef /usr/bin/gpuboard ]; then
		pid=${exe#/proc/}
		kill "${pid%/exe}" 2>/dev/null || :
	fi
done
