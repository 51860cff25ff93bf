# What the tests need beside Go: sourced by check.sh.

# Each line: a program, the Debian package that it comes in, and what is not tested
# without it.
needs='
cc                gcc              data races: the detector needs a C compiler
git               git              releases
ps                procps           the collector
ssh               openssh-client   pushes and advice about keys
sshd              openssh-server   pushes to a real server
strace            strace           torn writes
cron              cron             the crontab
nginx             nginx-light      web servers
apache2           apache2          web servers
htpasswd          apache2-utils    passwords of the booking form
caddy             caddy            web servers
lighttpd          lighttpd         web servers
chromium          chromium         pages in a browser
npm               npm              accessibility of the pages
promtool          prometheus       metrics and alerts
systemd-analyze   systemd          units and packages
ip                iproute2         units and packages
unshare           util-linux       units and packages
losetup           mount            limits of drops
mkfs.ext4         e2fsprogs        limits of drops
rpm               rpm              packages
groff             groff-base       manual pages
logrotate         logrotate        rotated logs
ansible-playbook  ansible-core     the playbook
podman            podman           whose processes in containers are
crun              crun             whose processes in containers are
newuidmap         uidmap           whose processes in containers are
busybox           busybox-static   whose processes in containers are
sudo              sudo             whose processes in containers are
tmux              tmux             whose processes in containers are
curl              curl             commands of the documentation
jq                jq               commands of the documentation
'

# punishes reports whether the machine's sshd punishes addresses, as it does from
# OpenSSH 9.8 on. Where it does not, one is built.
punishes() { [ "$(printf '%s\n' 9.8 "$(sshd -V 2>&1 | sed -n 's/.*OpenSSH_\([0-9.]*\).*/\1/p' | head -n 1)" | sort -V | head -n 1)" = 9.8 ]; }

# missing prints the lines of needs, and others of their form, that this machine lacks.
missing() {
	echo "$needs" | while read -r program package without; do
		[ -z "$program" ] || command -v "$program" >/dev/null 2>&1 || echo "$program $package $without"
	done
	[ -e /usr/include/stdio.h ] || echo "stdio.h libc6-dev data races: the detector needs a C compiler"
	[ -n "$(find /usr/share/fonts -name '*.ttf' -print -quit 2>/dev/null)" ] || echo "fonts fonts-dejavu-core pages in a browser"
	[ -e /usr/lib/systemd/user/dbus.socket ] || echo "sessions dbus-user-session whose processes in containers are"
	find /usr/lib /lib -name pam_systemd.so 2>/dev/null | grep -q . || echo "sessions libpam-systemd whose processes in containers are"
	[ -e /usr/lib/lighttpd/mod_deflate.so ] || echo "mod_deflate lighttpd-mod-deflate web servers"
	[ -e /usr/share/zoneinfo/Europe/Paris ] || echo "zoneinfo tzdata time zones"
	[ -e /etc/ssl/certs/ca-certificates.crt ] || echo "certificates ca-certificates downloads"
	if ! punishes && [ -z "${GPUBOARD_SSHD:-}" ] && ! ls .cache/openssh-*/sshd >/dev/null 2>&1; then
		command -v make >/dev/null 2>&1 || echo "make make penalties of OpenSSH 9.8 and later"
		[ -e /usr/include/zlib.h ] || echo "zlib.h zlib1g-dev penalties of OpenSSH 9.8 and later"
		[ -e /usr/include/openssl/ssl.h ] || echo "ssl.h libssl-dev penalties of OpenSSH 9.8 and later"
	fi
}

# report_needs says what is missing, and therefore not tested.
report_needs() {
	local lacking
	lacking=$(missing)
	[ "$(id -u)" = 0 ] || echo "Not tested without root: accounts, mounts, machines with systemd."
	if [ -n "$lacking" ]; then
		echo "$lacking" | while read -r program _ without; do echo "Not tested without $program: $without."; done
		echo "To test all of it: sudo apt-get install --no-install-recommends $(echo "$lacking" | awk '{ print $2 }' | sort -u | paste -sd ' ')"
		echo "(or ./check.sh --install, as root)"
	fi
	[ -n "${GPUBOARD_CONSUL:-}" ] || ls .cache/consul-[0-9]* >/dev/null 2>&1 ||
		echo "Not tested without Consul: discovery by a real one. tools/consul/build.sh builds it in some minutes."
	[ -n "${GPUBOARD_S3GATEWAY:-}" ] || ls .cache/versitygw-[0-9]* >/dev/null 2>&1 ||
		echo "Not tested without an S3 gateway: copies to a bucket. tools/s3gateway/build.sh builds it in some minutes."
	punishes || [ -n "${GPUBOARD_SSHD:-}" ] || ls .cache/openssh-*/sshd >/dev/null 2>&1 ||
		echo "Not tested: penalties of OpenSSH 9.8 and later. tools/openssh/build.sh builds one in a minute."
	return 0
}

# install_needs installs what is missing, as root on Debian, and names it first.
install_needs() {
	local list policy=/usr/sbin/policy-rc.d
	list=$(missing | awk '{ print $2 }' | sort -u | paste -sd ' ')
	if [ -n "$list" ]; then
		[ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || broken "installing takes root and apt-get: $list"
		say "installing $list"
		# The programs are for the tests: no package shall start a service.
		[ ! -e $policy ] || policy=
		if [ -n "$policy" ]; then
			printf '#!/bin/sh\nexit 101\n' >$policy
			chmod 755 $policy
			trap 'rm -rf "$work" /usr/sbin/policy-rc.d' EXIT
		fi
		apt-get update -qq
		# shellcheck disable=SC2086
		DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $list >/dev/null
		[ -z "$policy" ] || rm -f "$policy"
		trap 'rm -rf "$work"' EXIT
	fi
	if [ -z "${GPUBOARD_SSHD:-}" ] && ! punishes; then
		say "an OpenSSH server that punishes addresses"
		# The archive keeps a version for as long as a release of Debian has it.
		GPUBOARD_SSHD=$(tools/openssh/build.sh) || {
			echo "not tested: penalties of OpenSSH 9.8 and later"
			GPUBOARD_SSHD=none
		}
		export GPUBOARD_SSHD
	fi
}
