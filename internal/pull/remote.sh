# What is run on a node at every reading, by sh of any kind: it writes nothing there, and prints no arguments of programs.
# The lines are joined by blanks, and neither ' nor ! may stand here: the account may have another shell. What is printed:
#   >name     a program, with its output behind | and what it said besides behind %, at last %?STATUS
#   /path:x   a line of a file, or a file that exists; a directory if / stands before the colon
#   @12.34    how long the node has been up
#   .         the end
# A program that has been in state D for ten seconds hangs, and is not started again.
PATH=$PATH:/usr/local/bin:/usr/bin:/bin:/usr/local/sbin:/usr/sbin:/sbin:/usr/local/nvidia/bin:/usr/lib/wsl/lib:/opt/bin:/opt/rocm/bin:/run/current-system/sw/bin;
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
old() { ps -u "$(id -u)" -o stat= -o etime= -o "$1=" | grep "^D" | grep -v " 0*0:0[0-9] "; };
if old comm | grep -q nvidia-smi; then echo ">smi"; echo "%?124";
elif command -v nvidia-smi >/dev/null; then run smi nvidia-smi @SMI; fi;
pids="1 $(printf "%s\n" "$out" | sed -n "s/.*<pid>\([0-9]\{1,7\}\)<.*/\1/p" | sort -u | head -n 512)";
case $out in *"<mig_device>"*) run list nvidia-smi @LIST;; esac;
amd() {
hung=$(old args | grep -v "sh -c");
case $hung in *sys/class/drm*) exit;; esac;
c="sys/class/drm/card*/device"; h="$c/hwmon/hwmon*"; k=sys/class/kfd/kfd; n="$k/topology/nodes/*"; all=;
set -- $k/proc/*/vram_* $k/proc/*/queues/*/gpuid $k/proc/*/context_*/vram_* $k/proc/*/context_*/queues/*/gpuid;
if [ $# -lt 4000 ]; then
for d in $k/proc/ $k/proc/*/ $k/proc/*/queues/ $k/proc/*/context_*/ $k/proc/*/context_*/queues/; do
case $d in *"*"*) ;; */queues/|*/proc/) [ -r $d ] && [ -x $d ] && echo "/$d:";; *) echo "/$d:";; esac;
done;
else set --; fi;
set -- "$@" sys/module/amdgpu/version $c/uevent $c/vendor $c/*_busy_percent $c/*_link_width $c/product_name $c/unique_id
$c/current_*_partition $c/mem_info_vram_total $c/mem_info_vram_used $c/pp_dpm_[ms]clk
$h/power1_average $h/power1_input $h/power1_cap $h/temp[123]_label $h/temp[123]_input $h/pwm1 $h/fan1_input $h/in1_label
$n/gpu_id $n/properties $n/mem_banks/0/properties;
g=$($t ls -l proc/[0-9]*/fd | sed -n -e "/^proc.*:$/{s/:$/info/;h;}"
-e "/ -> .dev.dri/{s/ -> .*//;s/.* //;G;s,\(.*\)\n\(.*\),\2/\1,p;}" | head -n 1024);
{ printf "%s:\n" "$@"; printf "%s\n" "$@" | LC_ALL=C $t xargs grep -Hs ""; LC_ALL=C $t grep -Hs "^drm-" $g; } |
sed "/^[^:]*[*]/d;s,^,/,";
case $hung in *amd-smi*|*rocm-smi*) ;; *)
if command -v amd-smi >/dev/null; then
out=-;
for a in "static @STATIC" "metric @METRIC" "process @PROCESS" "version @VERSION"; do
[ -n "$out" ] && run ${a%% *} amd-smi ${a#* } && all="$all$out";
done;
elif command -v rocm-smi >/dev/null; then run rocm rocm-smi @ROCM; all=$out;
else echo ">none"; fi;; esac;
pids=$({ printf "%s\n" $pids; printf "%s\n" $k/proc/*/ $g | sed -n "s|.*proc/\([0-9]\{1,7\}\)/.*|\1|p";
printf "%s\n" "$all" | tr "{," "\n\n" | sed -n "s/^[^a-zA-Z]*[pP][iI][dD][^0-9]*\([0-9]\{1,7\}\).*/\1/p"; } |
sort -u | head -n 512);
};
cd /; [ -d sys/module/amdgpu ] && amd;
up;
command -v ps >/dev/null && run ps ps @PS;
st=; cg=; lu=; cl=; um=; mi=/proc/1/mountinfo;
for p in $pids; do
st="$st /proc/$p/status"; cg="$cg /proc/$p/cgroup"; lu="$lu /proc/$p/loginuid"; cl="$cl /proc/$p/cmdline";
um="$um /proc/$p/stat /proc/$p/uid_map";
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
