#!/bin/sh
# Compares the micro-benchmarks of this tree with those of another commit:
#
#   bench/against.sh HEAD~5 ./internal/history ./sitegen/...
#   BENCH=Merge COUNT=10 bench/against.sh v1.2.0 ./internal/board
#
# Both take turns, so that what else the machine does meets both. The other
# commit is checked out beside this tree, and removed at the end.
set -eu
cd "$(dirname "$0")/.."
[ $# -ge 1 ] || { sed -n '2,6p' "$0" >&2; exit 2; }
base=$1
shift
[ $# -ge 1 ] || set -- ./internal/board ./internal/history ./internal/snapshot ./internal/spool ./collector/... ./sitegen/...
there=$(mktemp -d)
trap 'git worktree remove --force "$there/tree" >/dev/null 2>&1 || :; rm -rf "$there"' EXIT
trap 'exit 130' INT TERM
git worktree add --detach "$there/tree" "$base" >/dev/null
count=${COUNT:-6} n=0
while [ "$n" -lt "$count" ]; do
	n=$((n + 1))
	for side in old new; do
		echo "run $n of $count: $side" >&2
		dir=.
		[ "$side" = new ] || dir=$there/tree
		(cd "$dir" && go test -run '^$' -bench "${BENCH:-.}" -benchmem -benchtime "${TIME:-1s}" "$@") >>"$there/$side.txt" || {
			cat "$there/$side.txt" >&2
			exit 1
		}
	done
done
go tool -modfile=tools/benchstat/go.mod benchstat old="$there/old.txt" new="$there/new.txt"
