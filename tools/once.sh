# Sourced by scripts that build a program once, into ${GPUBOARD_CACHE:-.cache} of
# this repository, whose top is $root.
#
# once NAME VERSION sets out to the program's place there. Where nothing is, it
# calls the script's function build, which leaves the program, a file or a
# directory, as $work/out; work is removed whatever happens. Two at a time take
# turns, and what appears in the cache is whole.
cache=${GPUBOARD_CACHE:-$root/.cache}

once() {
	out=$cache/$1-$2
	mkdir -p "$cache"
	exec 9>"$cache/$1.lock"
	flock 9
	[ ! -e "$out" ] || return 0
	work=$(mktemp -d "$cache/.$1.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	trap 'exit 1' HUP INT TERM
	build
	mv "$work/out" "$out"
}

# pinned MODULE GO.MOD is the version of a module that a go.mod names.
pinned() {
	found=$(sed -n "s|^.*[[:space:]]$1 v\([0-9][0-9.]*\).*|\1|p" "$2")
	[ -n "$found" ] || { echo "$0: no version of $1 in $2" >&2; exit 1; }
	echo "$found"
}
