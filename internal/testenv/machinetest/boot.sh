# Becomes process 1 of a machine of its own: everything that this machine has,
# and nothing of what is written there remains. It is run with namespaces of its
# own. $1: an empty directory.
set -e
mount --make-rprivate /
mount -t tmpfs tmpfs "$1"
cd "$1"
mkdir up work root
mount -t overlay overlay -o "lowerdir=/,upperdir=$1/up,workdir=$1/work" root
cd root
mount -t proc proc proc
# The kernel is this machine's, too, and nothing there shall change it.
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys
mount -t sysfs -o ro sysfs sys
mount -t cgroup2 cgroup2 sys/fs/cgroup
mount -t tmpfs -o mode=755 tmpfs dev
for node in null zero full random urandom tty; do
	: >dev/$node
	mount --bind /dev/$node dev/$node
done
mkdir dev/pts dev/shm
mount -t devpts -o newinstance,ptmxmode=0666 devpts dev/pts
mount -t tmpfs tmpfs dev/shm
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs -o mode=755 tmpfs run
# An empty home for root. In this machine's home there may be start-up files of other tools, and
# some of these wait for a lock at each login.
mount -t tmpfs -o mode=700 tmpfs root
# No service of this machine is a service of that one, and nobody has run
# gpuboard there yet.
rm -rf etc/gpuboard etc/cron.d/gpuboard* var/lib/gpuboard srv/gpuboard
rm -rf etc/systemd/system/*.wants usr/sbin/policy-rc.d
: >etc/machine-id
ip link set lo up
mkdir -p mnt
pivot_root . mnt
umount -l /mnt
mount -t tmpfs -o mode=1777 tmpfs /tmp
mount -t tmpfs -o mode=1777 tmpfs /var/tmp
exec env -i container=machinetest PATH=/usr/sbin:/usr/bin:/sbin:/bin "$2" --system --unit=basic.target --log-target=journal
