package booking

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/tailscale/hujson"
	"golang.org/x/text/unicode/norm"

	"gpuboard/internal/snapshot"
)

// A Target is what an entry books on its host: one GPU by its index, one by its
// UUID, or the whole host.
type Target struct {
	All   bool
	UUID  string // "" unless booked by UUID, or the UUID of a booked index is known
	Index int    // -1 if All or booked by UUID; with a UUID, the index that was written
}

// Covers reports whether the target includes the GPU with this index and UUID.
func (t Target) Covers(index int, uuid string) bool {
	switch {
	case t.All:
		return true
	case t.UUID != "":
		return t.UUID == uuid
	default:
		return t.Index == index
	}
}

// slice reports whether the target is a MIG slice of a GPU.
func (t Target) slice() bool { return strings.HasPrefix(t.UUID, "MIG-") }

// ParseTarget reads the key of a GPU: an index, a UUID or "*". The hint is "" if it was understood.
func ParseTarget(key string) (target Target, hint string) {
	none := Target{Index: -1}
	switch {
	case key == "*":
		return Target{All: true, Index: -1}, ""
	case isUUID(key):
		return Target{UUID: CanonicalUUID(key), Index: -1}, ""
	case digits(key):
		index, err := strconv.Atoi(key)
		switch {
		case err != nil || index >= snapshot.MaxGPUs:
			return none, fmt.Sprintf("%s: GPUs are counted from 0, and no host has more than %d", quote(key),
				snapshot.MaxGPUs)
		case strconv.Itoa(index) != key:
			return none, fmt.Sprintf("write %q, without leading zeros", strconv.Itoa(index))
		}
		return Target{Index: index}, ""
	}
	return none, fmt.Sprintf(
		`%s names no GPU: write its index ("0"), its UUID ("GPU-…" or "MIG-…") or "*" for the whole host`, quote(key))
}

// uuidForm is that of nvidia-smi, and the shorter one of AMD. Older drivers of NVIDIA's name a MIG slice by the UUID of
// its GPU and two numbers.
var uuidForm = snapshot.Pattern(`^(?i:(GPU|MIG|MIG-GPU)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(/\d+/\d+)?|` +
	`GPU-[0-9a-f]{16})$`)

func isUUID(key string) bool { return uuidForm().MatchString(key) }

// CanonicalUUID writes a UUID as nvidia-smi does: prefixes in capitals, the rest in small letters.
func CanonicalUUID(key string) string {
	s := strings.ToLower(key)
	s = strings.ReplaceAll(s, "mig-", "MIG-")
	return strings.ReplaceAll(s, "gpu-", "GPU-")
}

// String is the target as a key of comments.json: "0", "GPU-…" or "*".
func (t Target) String() string {
	switch {
	case t.All:
		return "*"
	case t.UUID != "":
		return t.UUID
	default:
		return strconv.Itoa(t.Index)
	}
}

func compareTargets(a, b Target) int {
	rank := func(t Target) int {
		switch {
		case t.All:
			return 0
		case t.UUID == "":
			return 1
		}
		return 2
	}
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Index, b.Index), cmp.Compare(a.UUID, b.UUID))
}

// mayMean is the GPU that a key names which [ParseTarget] refuses, such as "gpu0", and else the whole host.
func mayMean(key string) Target {
	number, named := strings.CutPrefix(strings.ToLower(key), "gpu")
	if named {
		number = strings.TrimPrefix(number, "-") // elsewhere it may be the sign of a number
	}
	if number = strings.TrimLeft(number, " :#_"); digits(number) {
		if index, err := strconv.Atoi(number); err == nil && index < snapshot.MaxGPUs {
			return Target{Index: index}
		}
	}
	return Target{All: true, Index: -1}
}

// parseTargets reads GPU[,GPU…]. A GPU is an index, a range of indices such as 0-3, a UUID, or "*".
func parseTargets(text string) (targets []Target, err error) {
	for word := range strings.SplitSeq(text, ",") {
		word = strings.TrimSpace(word)
		keys := []string{word}
		if first, last, ok := strings.Cut(word, "-"); ok && digits(first) && digits(last) {
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 != nil || err2 != nil || from > to || to >= snapshot.MaxGPUs {
				return nil, fmt.Errorf(
					`%s is no range of GPUs: write the lowest and the highest index, as in "0-3", below %d`,
					quote(word), snapshot.MaxGPUs)
			}
			keys = nil
			for i := from; i <= to; i++ {
				keys = append(keys, strconv.Itoa(i))
			}
		}
		for _, key := range keys {
			target, hint := ParseTarget(key)
			if hint != "" {
				return nil, errors.New(hint)
			}
			if !slices.Contains(targets, target) {
				targets = append(targets, target)
			}
		}
	}
	if all := slices.IndexFunc(targets, func(t Target) bool { return t.All }); all >= 0 {
		return targets[all : all+1], nil // the others are part of it
	}
	return targets, nil
}

// ParsePlace reads HOST[:GPU[,GPU…]]. A GPU is an index, a range of indices such as
// 0-3, a UUID, or "*". A host alone is the whole host.
func ParsePlace(text string) (host string, targets []Target, err error) {
	name, gpus, some := strings.Cut(text, ":")
	if host, err = snapshot.ParseHost(name); err != nil {
		return "", nil, fmt.Errorf("%q: %w", text, err)
	}
	if !some {
		return host, []Target{{All: true, Index: -1}}, nil
	}
	targets, err = parseTargets(gpus)
	return host, targets, err
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// Place is what a booking is for, as [ParsePlace] reads it.
func (b Booking) Place() string {
	if b.Target.All {
		return b.Host
	}
	return b.Host + ":" + b.Target.String()
}

// Places is a short list of what several bookings are for: "gpu01:0,1 and gpu02".
func Places(bookings []Booking) string {
	var words []string
	last := ""
	for _, b := range bookings {
		if b.Host == last && !b.Target.All && strings.Contains(words[len(words)-1], ":") {
			words[len(words)-1] += "," + b.Target.String()
			continue
		}
		words = append(words, b.Place())
		last = b.Host
	}
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}

// maxKeyBytes is the length of a key that is read although it is no host name.
const maxKeyBytes = 1024

const (
	numerals = "0123456789"
	// placeSigns stand between a host and its GPU.
	placeSigns = ":/# "
)

// plain removes what nobody sees from a key, and writes look-alike characters as the usual ones.
func plain(key string) string {
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		switch {
		case unicode.IsSpace(r):
			return ' '
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Mn):
			return -1
		case unicode.Is(unicode.Pd, r), r == '−':
			return '-'
		}
		return r
	}, norm.NFKC.String(key)))
}

// keyPlaces returns what a key may mean that is no host name: one host with its GPUs, such as "gpu01:0", which is
// certain, or each host of a list or range, such as "a,b" or "gpu[1-2]".
func keyPlaces(key string) (hosts []string, gpus []Target, certain bool) {
	if len(key) > maxKeyBytes {
		return nil, nil, false
	}
	text := strings.TrimRight(strings.ToLower(plain(key)), " .:")
	if _, err := snapshot.ParseHost(text); err == nil {
		return []string{text}, nil, true
	}
	if host, gpus, ok := hostWithGPUs(text); ok {
		return []string{host}, gpus, true
	}
	return possibleHosts(text), nil, false
}

// hostWithGPUs reads keys such as "gpu01:0", "gpu01/0" and "gpu01 0". It refuses "gpu 1", which may be gpu1.
func hostWithGPUs(text string) (host string, gpus []Target, ok bool) {
	i := strings.IndexAny(text, placeSigns)
	if i <= 0 {
		return "", nil, false
	}
	host, gpus, err := ParsePlace(text[:i] + ":" + strings.TrimLeft(text[i:], placeSigns))
	numbered := strings.TrimRight(host, numerals) != host
	return host, gpus, err == nil && (numbered || strings.Contains(text, ":"))
}

// possibleHosts returns every host name in a key that is a list, a range, or a name with signs in it. A range is
// returned as a name such as "gpu1-2", which [Calendar.On] expands.
func possibleHosts(text string) (hosts []string) {
	add := func(name string) {
		host, err := snapshot.ParseHost(strings.Trim(name, ".-_"))
		if err == nil && !slices.Contains(hosts, host) {
			hosts = append(hosts, host)
		}
	}
	between := func(signs string) func(rune) bool {
		return func(r rune) bool { return strings.ContainsRune(signs, r) }
	}

	for _, form := range []string{withoutBrackets(text), text} {
		for _, name := range strings.FieldsFunc(form, between(placeSigns+",;|&+@=()[]{}")) {
			if strings.Trim(name, numerals+"-") != "" {
				add(name)
			}
		}
	}

	// "gpu_01" and "gpu 01" may be gpu01, and "gpu_01" may be gpu-01.
	joined := strings.Join(strings.FieldsFunc(text, between(placeSigns)), "")
	add(strings.ReplaceAll(joined, "_", ""))
	add(strings.ReplaceAll(joined, "_", "-"))
	return hosts
}

// withoutBrackets writes ranges as names with a hyphen: "gpu[1-2]", "gpu{1,2}" and "gpu1..2" as "gpu1-2".
func withoutBrackets(text string) string {
	inside := false
	return strings.Map(func(r rune) rune {
		switch {
		case strings.ContainsRune("[{", r):
			inside = true
			return -1
		case strings.ContainsRune("]}", r):
			inside = false
			return -1
		case inside && r == ',':
			return '-'
		}
		return r
	}, strings.ReplaceAll(strings.ReplaceAll(text, "..", "-"), " - ", "-"))
}

// nameRange returns the names from first to last, which have numbers at their ends. last may be a number alone.
func nameRange(first, last string) (names []string) {
	prefix := strings.TrimRight(first, numerals)
	low, high := first[len(prefix):], strings.TrimPrefix(last, prefix)
	from, err := strconv.Atoi(low)
	to, err2 := strconv.Atoi(high)
	if err != nil || err2 != nil || !digits(high) || to-from > 9999 {
		return nil
	}
	for n := from; n <= to; n++ {
		names = append(names, fmt.Sprintf("%s%0*d", prefix, len(low), n))
	}
	return names
}

// oddHost reads the bookings below a key that is no host name, for what it may mean.
func (r *reading) oddHost(name, v *hujson.Value) {
	hosts, gpus, certain := keyPlaces(text(name))
	if len(hosts) == 0 && r.more {
		return
	}
	key := quote(text(name))
	if len(hosts) == 0 {
		r.problem("booking:host", name.StartOffset, "%s: letters, digits, inner hyphens and dots only: "+
			"this is no host name, and its bookings do not count", key)
		return
	}

	slots, first := r.slots, len(r.found)
	r.slots = map[slot]*hujson.Value{} // edits put nothing below such a key
	object, ok := v.Value.(*hujson.Object)
	switch whole := (slot{hosts[0], Target{All: true, Index: -1}}); {
	case gpus == nil:
		r.host(hosts[0], v)
	case ok && !isEntry(v) && len(object.Members) > 0: // the key names a GPU, and so does the value
		certain = false
		r.hold(whole, v)
	default:
		r.targets(hosts[0], gpus, v)
	}
	r.slots = slots

	for _, f := range r.found[first:] {
		if f.guess = !certain; f.guess {
			f.Disown()
		}
		for _, host := range hosts[1:] {
			b := f.Booking
			b.Host = host
			r.append(b, f.entry)
		}
	}

	where := Booking{Host: hosts[0], Target: Target{All: true, Index: -1}}
	message := fmt.Sprintf(`%s is read as %s: write { "%[2]s": … }`, key, hosts[0])
	switch {
	case !certain:
		message = key + mayBe(hosts)
	case gpus != nil:
		where.Target = gpus[0]
		written := strings.Trim(strings.ReplaceAll(fmt.Sprint(gpus), " ", ","), "[]")
		message = fmt.Sprintf(`%s is read as %s:%s: write { "%[2]s": { "%[3]s": … } }`, key, hosts[0], written)
	}
	r.hostProblem("booking:host", name, slot{where.Host, where.Target}, "%s", message)
}

// mayBe says which hosts a key may mean, and how to correct it.
func mayBe(hosts []string) string {
	return " may mean " + strings.Join(hosts[:min(len(hosts), 8)], ", ") +
		": write each host as a key of its own; until then, each counts as booked by \"" + Unreadable + "\""
}
