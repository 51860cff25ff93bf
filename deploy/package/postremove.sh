#!/bin/sh
# After removal. Snapshots, bookings and history are people's data, and stay; so do keys. A purge says so, and
# takes the lines out of the account's crontab that would start the program once it is installed again.
set -e
root=${DPKG_ROOT:-}

if [ -z "$root" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
[ "${1:-}" = purge ] || exit 0

if [ -z "$root" ] && crontab -u gpuboard -l 2>/dev/null | grep -q /usr/bin/gpuboard; then
	crontab -u gpuboard -l | grep -v /usr/bin/gpuboard | crontab -u gpuboard -
fi
kept=
for path in /etc/gpuboard /etc/tmpfiles.d/gpuboard-web.conf /srv/gpuboard /var/lib/gpuboard; do
	if [ -e "$root$path" ]; then
		kept="$kept $path"
	fi
done
if [ -n "$kept" ]; then
	echo "gpuboard: kept, with bookings, history and private keys:$kept"
	echo "gpuboard: to remove them, too: rm -r$kept; userdel gpuboard"
fi
