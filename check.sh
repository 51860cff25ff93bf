#!/usr/bin/env bash
# The whole gate. It ends with 0 only if all that this machine can test has passed.
#
#   ./check.sh            everything: some minutes
#   ./check.sh ./sitegen  one package
#   ./check.sh --quick    before each commit: no race detector, and no test that takes
#                         long; under a minute after the first time
#   ./check.sh --long     everything, and 30 s of fuzzing for each parser, a thousand nodes
#                         at once, 10,000 cycles of each loop, every fault at every system
#                         call: an hour or two
#   ./check.sh --install  installs what the tests need before it begins (root, Debian), as
#                         it does in CI; otherwise nothing is installed
#
# Tests that inject a fault at each system call take a sample of the calls. Its seed is
# printed; GPUBOARD_FAULT_SEED=N repeats it.
set -euo pipefail
cd "$(dirname "$0")"

quick=false long=false install=false
packages=()
for arg in "$@"; do
	case $arg in
	--quick) quick=true ;;
	--long) long=true ;;
	--install) install=true ;;
	-*) echo "check.sh: unknown option $arg" >&2; exit 2 ;;
	*) packages+=("$arg") ;;
	esac
done
if [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ]; then
	install=true
	export GPUBOARD_REQUIRE_ALL=1 # in CI a test that cannot run has failed
fi
export PATH="$PATH:/usr/sbin:/sbin"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

say() { printf '\n== %s (after %d s)\n' "$*" "$SECONDS"; }
broken() { echo "check.sh: $*" >&2; exit 1; }

command -v go >/dev/null || broken "there is no Go here; go.mod says which one is needed, and https://go.dev/dl has it"
tool() { go tool -modfile=tools/go.mod "$@"; }

. tools/needs.sh
if $install; then
	install_needs
else
	report_needs
fi

# Processor time is what the gate waits for, and there is memory: compilers and tests
# collect garbage less often, which takes an eighth less of it.
export GOGC=${GOGC:-400}
# A package is compiled once for the checks, the tests, the program that tests run and the
# release that they build, which has these settings. The race detector alone needs C.
export CGO_ENABLED=0 GOFLAGS="${GOFLAGS:+$GOFLAGS }-trimpath"

say "gofmt, go vet"
unformatted=$(git ls-files -co --exclude-standard '*.go' | while read -r file; do [ ! -e "$file" ] || echo "$file"; done | xargs gofmt -l)
[ -z "$unformatted" ] || broken "run gofmt -w on these: $unformatted"
if [ ${#packages[@]} -gt 0 ]; then
	go vet "${packages[@]}"
else
	for module in . bench; do
		(cd $module && go vet ./...)
	done
fi

say "templ"
before=$(cat templates/*.templ templates/*_templ.go | sha256sum)
go generate ./templates
[ "$before" = "$(cat templates/*.templ templates/*_templ.go | sha256sum)" ] || broken "go generate ./templates has changed files: look at them and commit them"

say "staticcheck"
tool staticcheck "${packages[@]:-./...}"

if [ ${#packages[@]} = 0 ]; then
	say "how much there is"
	git ls-files -co --exclude-standard '*.go' |
		grep -vE '_test\.go$|_templ\.go$|^(bench|tools|deploy/package)/|^internal/(testenv|e2e|guard)/' |
		while read -r file; do [ ! -e "$file" ] || cat "$file"; done | wc -l | sed 's/$/ lines of Go in the program/'
fi

if [ ${#packages[@]} = 0 ] && ! $quick; then
	say "deadcode"
	# What nothing calls, of the packages that the program is made of. A large fleet
	# is what measurements and tests of size are made of, the demo's truth what tests of
	# others compare with; what hides a secret is called by reflection.
	product=$(go list -deps -f '{{with .Module}}{{if .Main}}{{$.ImportPath}}{{end}}{{end}}' . | paste -sd '|')
	dead=$(tool deadcode -filter "^($product)\$" ./... | grep -vE ': (NewLarge|Fleet\.(Uses|Collected))$' || true)
	[ -z "$dead" ] || broken "only tests call these functions, or nobody does: delete them, and let the tests call what the program calls
$dead"
fi

# With the race detector a program sleeps for a second before it ends, for the sake of
# goroutines that still run; tests start many programs.
export GORACE=atexit_sleep_ms=0

# suite FORMAT ARGUMENT... is go test with these arguments. It prints packages as
# they finish, or tests, but not the parts of tests. What fails is remembered. go vet
# has run by now.
gotestsum=$(tool -n gotestsum)
status=0
suite() {
	"$gotestsum" --format "$1" --format-icons text --format-hide-empty-pkg --hide-summary skipped --jsonfile "$(mktemp "$work/XXXXXX.json")" -- -vet=off "${@:2}" |
		sed -u '/^ *PASS .*\.\(Test\|Fuzz\)[A-Za-z0-9_]*\//d' || status=1
}

# summary prints what was skipped and why, the slowest tests, what failed in few words, and the sum of it all.
summary() {
	cat "$work"/*.json >"$work/all"
	say "skipped, and why"
	"$gotestsum" --raw-command --format none --hide-summary failed,errors \
		--post-run-command "sh -c 'echo \$((TESTS_TOTAL - TESTS_FAILED - TESTS_SKIPPED)) passed, \$TESTS_FAILED failed, \$TESTS_SKIPPED skipped >$work/sum'" \
		-- cat "$work/all" >"$work/skipped" || true
	awk '/^=== SKIP: / { name = $3 " " $4 }
		match($0, /^ +[A-Za-z0-9_]+\.go:[0-9]+: /) { why = substr($0, RLENGTH + 1); if (!n[why]++) first[why] = name }
		END { for (why in n) printf "%4d  %s (%s%s)\n", n[why], why, first[why], (n[why] > 1 ? " and others" : "") }' "$work/skipped" | sort -rn
	say "the slowest tests"
	"$gotestsum" tool slowest --jsonfile "$work/all" --num 10 --threshold 100ms || true
	if [ $status != 0 ]; then
		say "failed; what the tests said is above in full"
		"$gotestsum" --raw-command --format none --hide-summary skipped -- cat "$work/all" 2>&1 |
			grep -E '^=== (FAIL|ERROR)|^ +[A-Za-z0-9_]+\.go:[0-9]+: ' | cut -c 1-600 | head -n 100 || true
	fi
	say "all tests"
	cat "$work/sum"
}

if [ ${#packages[@]} -gt 0 ]; then
	say "go test -race"
	CGO_ENABLED=1 suite testname -race -timeout 30m "${packages[@]}"
	summary
	exit $status
fi

# The race detector makes tests take several times as long, so it is for packages that
# start goroutines or that goroutines share. internal/e2e runs the program as it is
# built, and so do the scripts of the commands. The database of history takes many times
# as long under it: of sitegen, which uses it from several goroutines, only the test that
# is made for the detector runs under it, and of the commands none. The goroutines of
# snapshot share only what its test for the detector uses, so that test alone runs under it, too.
racing=$(git grep -lE '^\s+go (func|[A-Za-z.]+)\(|\.Go\(func|sync\.(Mutex|RWMutex|Map|Pool)|"sync/atomic"' -- '*.go' ':!*_test.go' ':!bench' ':!tools' ':!internal/testenv' ':!internal/history' |
	xargs -n1 dirname | grep -vxE 'sitegen|internal/(cli|snapshot)' | sort -u | sed 's|^|gpuboard/|')
raced_in_part='gpuboard/sitegen gpuboard/internal/snapshot' # with tests that are made for the detector
# This long test starts no goroutines, so it runs without the detector.
unraced=TestTwoHundredCutsOfARealSite
unraced_package=$(dirname "./$(git grep -l "^func $unraced(" -- '*_test.go')")
calm=$(go list ./... | grep -vxF "$racing" | grep -vE '/(internal/cli|internal/e2e|internal/history|sitegen|sitegen/page)$')
last="./internal/history ./sitegen ./sitegen/page ./internal/cli" # those that take minutes

if $quick; then
	say "go test -short"
	suite pkgname -short -timeout 10m ./...
	summary
	exit $status
fi

say "go test, where nothing runs at once"
# shellcheck disable=SC2086
suite pkgname -timeout 30m $calm
suite pkgname -timeout 30m -run "^$unraced\$" "$unraced_package"
suite pkgname -timeout 30m -run '^TestScripts$' ./internal/cli
cd bench
suite pkgname -timeout 30m ./...
cd ..

if $install && [ -z "${GPUBOARD_CONSUL:-}" ]; then
	say "Consul, which takes minutes the first time"
	GPUBOARD_CONSUL=$(tools/consul/build.sh)
	export GPUBOARD_CONSUL
fi
if $install && [ -z "${GPUBOARD_S3GATEWAY:-}" ]; then
	say "an S3 gateway, which takes minutes the first time"
	GPUBOARD_S3GATEWAY=$(tools/s3gateway/build.sh)
	export GPUBOARD_S3GATEWAY
fi
# The same sample of faults for a day, so that what has passed need not run again.
export GPUBOARD_FAULT_SEED=${GPUBOARD_FAULT_SEED:-$(date +%Y%m%d)}
if $long; then
	export GPUBOARD_ALL_CALLS=1
fi
say "go test -race, and beside it pages, history and the whole program, GPUBOARD_FAULT_SEED=$GPUBOARD_FAULT_SEED"
for package in $raced_in_part; do
	grep -q '^func TestRace' "${package#gpuboard/}"/*_test.go || broken "$package has no test for the race detector"
done
# Two jobs: tests of the whole program, which wait for servers and clocks much of the time,
# and beside them what keeps a processor busy, package after package. More at once would
# take no less time, and real servers would keep tests waiting beyond their own limits.
# Those that wait longest come first.
longest='^(TestAnsible|TestCronExample|TestRelease)$'
{
	suite testname -parallel 3 -run "$longest" -timeout 60m ./internal/e2e
	suite testname -parallel 3 -skip "$longest" -timeout 60m ./internal/e2e
	exit $status
} &
beside=$!
# shellcheck disable=SC2086
CGO_ENABLED=1 suite pkgname -race -p 2 -parallel 2 -skip "^$unraced\$" -timeout 60m $racing
# shellcheck disable=SC2086
CGO_ENABLED=1 suite pkgname -race -run '^TestRace' -timeout 60m $raced_in_part
# shellcheck disable=SC2086
suite testname -p 1 -parallel 2 -skip '^TestScripts$' -timeout 60m $last
wait "$beside" || status=1

if $long; then
	say "what takes longer: whole fleets, 10,000 cycles, sshd's own patience, a release without a cache"
	GPUBOARD_LONG=1 suite testname -count=1 -timeout 120m -run 'Soak|AllArrive|NeverSeeATornFile|Vanished|Punished|Release' ./internal/e2e ./internal/cli ./internal/node ./publisher

	say "fuzzing, 30 s each"
	go list ./... | while read -r package; do
		go test -list '^Fuzz' "$package" | grep '^Fuzz' | while read -r target; do
			echo "$package $target"
			go test -run '^$' -fuzz "^$target\$" -fuzztime 30s "$package"
		done
	done || status=1
fi

say "govulncheck"
# The database is a file server; without it there is nothing to check against.
if tool govulncheck ./... >"$work/vulnerabilities" 2>&1; then
	tail -n 3 "$work/vulnerabilities"
elif grep -qE 'vuln\.go\.dev|fetching vulnerabilities|dial tcp|no such host' "$work/vulnerabilities"; then
	echo "not checked: the vulnerability database cannot be reached from here"
else
	cat "$work/vulnerabilities"
	status=1
fi

summary
exit $status
