#!/bin/sh
# After install and upgrade. Nothing is started: which of the units a machine
# needs is for its administrator to say. What runs is restarted.
set -e
root=${DPKG_ROOT:-}

if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers --root="${root:-/}" gpuboard.conf
elif [ -z "$root" ] && ! getent passwd gpuboard >/dev/null; then
	useradd --system --home-dir /var/lib/gpuboard --shell /usr/sbin/nologin gpuboard
fi
if command -v systemd-tmpfiles >/dev/null; then
	systemd-tmpfiles --root="${root:-/}" --create gpuboard.conf || :
fi
if [ -z "$root" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart gpuboard-node.service gpuboard-watch.service gpuboard-receive.service gpuboard-serve.service
fi
