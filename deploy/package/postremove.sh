#!/bin/sh
# After removal. Snapshots, bookings and history are people's data, and stay.
set -e
if [ -z "${DPKG_ROOT:-}" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
