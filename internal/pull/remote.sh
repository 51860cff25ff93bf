# What is run on a node at every reading, by sh of any kind: it writes nothing there, and reads no arguments of programs.
# The lines are joined by blanks, and neither ' nor ! may stand here: the account may have another shell. What is printed:
#   >name     a program, with its output behind | and what it said besides behind %, at last %?STATUS
#   /path:x   a line of a file
#   @12.34    how long the node has been up
#   .         the end
PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/nvidia/bin:/usr/lib/wsl/lib:/run/current-system/sw/bin;
unset LC_ALL; LANG=C; LC_CTYPE=C.UTF-8; LC_MESSAGES=C; TZ=UTC; export PATH LANG LC_CTYPE LC_MESSAGES TZ;
exec 3>&1 </dev/null 2>/dev/null; t=; out=;
command -v timeout >/dev/null && t="timeout -k 1 8";
up() { read -r up rest </proc/uptime; echo "@$up"; };
run() {
echo ">$1"; shift;
out=$( { { $t "$@"; printf "\n?%s\n" $? >&2; } 2>&1 >&5 | tail -c 4000 | sed "s/^/%/" >&3; } 5>&1 | head -c 6000000 );
printf "%s\n" "$out" | sed "s/^/|/";
};
up;
if ps -u "$(id -u)" -o stat= -o comm= | grep -q "^D.*nvidia-smi"; then echo ">smi"; echo "%?124";
elif command -v nvidia-smi >/dev/null; then run smi nvidia-smi @SMI; fi;
pids="1 $(printf "%s\n" "$out" | sed -n "s/.*<pid>\([0-9]\{1,7\}\)<.*/\1/p" | sort -u | head -n 512)";
case $out in *"<mig_device>"*) run list nvidia-smi @LIST;; esac;
up;
command -v ps >/dev/null && run ps ps @PS;
st=; cg=; lu=; cl=; um=; mi=/proc/1/mountinfo;
for p in $pids; do
st="$st /proc/$p/status"; cg="$cg /proc/$p/cgroup"; lu="$lu /proc/$p/loginuid"; cl="$cl /proc/$p/cmdline"; um="$um /proc/$p/stat /proc/$p/uid_map";
[ -d /proc/$p ] || case $(kill -0 $p 2>&1) in *[Nn]"o such"*) ;; *) echo "/proc/$p/alive:";; esac;
done;
for f in $(grep -lsE "[0-9a-f]{64}|/lxc" $cg); do mi="$mi ${f%cgroup}mountinfo"; done;
for f in $(grep -lsF "</process_name>" $cl); do echo "$f:</process_name>"; done;
LC_ALL=C grep -Hs "^cpu" /proc/stat;
LC_ALL=C grep -Hs "" /proc/uptime /proc/loadavg /proc/meminfo /proc/sys/kernel/random/boot_id /proc/sys/kernel/osrelease /proc/self/mountinfo
/etc/os-release /etc/passwd /etc/subuid /etc/nsswitch.conf $st $cg $lu $um $mi;
echo "/proc/self/ns/pid:$(readlink /proc/self/ns/pid)";
u=$( { sed -n "s/^Uid:[^0-9]*\([0-9]*\).*/\1/p" $st; grep -hs "" $lu; } | sort -u | head -n 512 );
command -v getent >/dev/null && run getent getent passwd $u;
run df df -P -k -l;
echo .
