#!/bin/sh
# Gives a directory a small file system of its own, so that what is written there
# cannot fill the web host's disk. sshd's internal-sftp has no limit of its own:
# a node that was broken into writes as much as the file system takes.
#
#   sh limit-drops.sh DIR SIZE FILES
#
#   sh limit-drops.sh /srv/gpuboard/data/drop 16G 100000         all nodes together
#   sh limit-drops.sh /srv/gpuboard/data/drop/gpu01/in 128M 700  one node
#
# With the first a node can keep others from delivering, but not the web host from
# working. With the second it can harm itself alone. 72 MiB and 320 files are the
# most that a node needs.
#
# The file system is ext4 in a file below /var/lib/gpuboard-drops, all of whose
# room is taken from the disk at once. What the directory holds is copied. Run it
# while the nodes are locked out, or before they come: what is delivered during the
# copy is hidden afterwards. Where the disk has project quotas (xfs, or ext4 with
# the feature "project"), a quota on each node's "in" does the same without it.
# To undo it: umount DIR, and remove its line from /etc/fstab and its file.
set -eu

IMAGES=${IMAGES:-/var/lib/gpuboard-drops}
FSTAB=${FSTAB:-/etc/fstab}
OPTIONS=loop,nodev,nosuid,noexec

fail() {
    echo "limit-drops.sh: error: $1" >&2
    exit 1
}

[ $# -eq 3 ] || fail "usage: limit-drops.sh DIR SIZE FILES, such as /srv/gpuboard/data/drop 16G 100000"
[ "$(id -u)" = 0 ] || fail "it needs root"
[ -d "$1" ] && [ ! -L "$1" ] || fail "$1 is not a directory"
DIR=$(cd "$1" && pwd -P)
case $DIR in
*[!A-Za-z0-9/._-]*) fail "$DIR has characters that do not fit into $FSTAB" ;;
esac
! mountpoint -q "$DIR" || fail "$DIR has a file system of its own already: df $DIR"
IMAGE=$IMAGES/$(printf %s "${DIR#/}" | tr / -).ext4
[ ! -e "$IMAGE" ] || fail "$IMAGE is there already; mount $DIR, or remove it"

WORK=$(mktemp -d)
done=
clean() {
    if mountpoint -q "$WORK"; then umount "$WORK"; fi
    rmdir "$WORK"
    [ -n "$done" ] || rm -f "$IMAGE"
}
trap clean EXIT
trap 'exit 1' HUP INT TERM

(umask 077 && mkdir -p "$IMAGES" && fallocate -l "$2" "$IMAGE")
mkfs.ext4 -q -F -m 0 -N "$3" "$IMAGE"
mount -o "$OPTIONS" "$IMAGE" "$WORK"
rmdir "$WORK/lost+found" # it would be taken for a host; fsck makes it where it needs it
cp -a "$DIR/." "$WORK/"
umount "$WORK"
mount -o "$OPTIONS" "$IMAGE" "$DIR"
done=yes
# Without nofail a damaged file would keep the web host from starting.
echo "$IMAGE $DIR ext4 $OPTIONS,nofail 0 2" >> "$FSTAB"
