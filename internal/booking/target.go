package booking

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

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
			return none, fmt.Sprintf("%s: GPUs are counted from 0, and no host has more than %d", quote(key), snapshot.MaxGPUs)
		case strconv.Itoa(index) != key:
			return none, fmt.Sprintf("write %q, without leading zeros", strconv.Itoa(index))
		}
		return Target{Index: index}, ""
	}
	return none, fmt.Sprintf(`%s names no GPU: write its index ("0"), its UUID ("GPU-…" or "MIG-…") or "*" for the whole host`, quote(key))
}

// uuidForm is that of nvidia-smi. Older drivers name a MIG slice by the UUID of its GPU and two numbers.
var uuidForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(?i:(GPU|MIG|MIG-GPU)-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}(/\d+/\d+)?)$`)
})

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
	number := strings.TrimPrefix(strings.ToLower(strings.TrimSpace(key)), "gpu")
	if number = strings.TrimLeft(number, " :#_-"); digits(number) {
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
				return nil, fmt.Errorf(`%s is no range of GPUs: write the lowest and the highest index, as in "0-3", below %d`, quote(word), snapshot.MaxGPUs)
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
