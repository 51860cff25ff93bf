#!/bin/sh
# Before removal, and not before an upgrade: deb says "upgrade", rpm says 1.
set -e
case ${1:-} in
upgrade | 1) exit 0 ;;
esac
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	systemctl disable --now gpuboard-node.service gpuboard-watch.service gpuboard-receive.service gpuboard-serve.service \
		gpuboard-collect.timer gpuboard-generate.timer 2>/dev/null || :
fi
