#!/bin/sh
# Builds an OpenSSH server that punishes addresses (9.8 and later), for the tests
# of it where the machine's own is older, and prints its path.
#
# The source is Debian's, fetched with apt's own downloader and known by its sum.
# It needs cc, make, libssl-dev and zlib1g-dev, and is built once.
set -eu

version=10.0p1
sum=021a2e709a0edf4250b1256bd5a9e500411a90dddabea830ed59cef90eb9d85c
# From the archive that this machine installs from: the first one of apt's that
# has a main section.
site=$(apt-get indextargets --format '$(SITE) $(COMPONENT)' 'Created-By: Packages' | sed -n 's/ main$//p' | head -n 1)
url=$site/pool/main/o/openssh/openssh_$version.orig.tar.gz

root=$(cd "$(dirname "$0")/../.." && pwd)
. "$root/tools/once.sh"

build() {
	/usr/lib/apt/apt-helper download-file "$url" "$work/source.tar.gz" "SHA256:$sum" >&2
	mkdir "$work/source" "$work/out"
	tar -xzf "$work/source.tar.gz" -C "$work/source" --strip-components=1
	(
		cd "$work/source"
		./configure --with-privsep-path=/run/sshd --without-pam --disable-pkcs11 --disable-security-key >"$work/log" 2>&1 &&
			make -j2 sshd sshd-session sshd-auth sftp-server >>"$work/log" 2>&1
	) || { tail -n 20 "$work/log" >&2; exit 1; }
	(cd "$work/source" && cp sshd sshd-session sshd-auth sftp-server "$work/out/")
}

once openssh "$version"
echo "$out/sshd"
