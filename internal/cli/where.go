package cli

import (
	"strconv"
	"strings"

	"gpuboard/internal/booking"
	"gpuboard/internal/snapshot"
)

// parseWhere reads HOST[:GPU[,GPU…]]. A GPU is an index, a range of indices, a
// UUID, or "*"; a host alone is the whole host.
func parseWhere(arg string) (host string, targets []booking.Target, err error) {
	const form = "write gpu01:0, gpu01:0,1, gpu01:0-3, gpu01:GPU-…, gpu01:MIG-…, or gpu01 for the whole host"
	name, gpus, some := strings.Cut(arg, ":")
	host, err = snapshot.ParseHost(name)
	if err != nil {
		return "", nil, usagef(form, "%q: %w", arg, err)
	}
	if !some {
		return host, []booking.Target{{All: true, Index: -1}}, nil
	}
	have := map[booking.Target]bool{}
	for _, word := range strings.Split(gpus, ",") {
		word = strings.TrimSpace(word)
		list := []string{word}
		if first, last, ok := strings.Cut(word, "-"); ok && digits(first) && digits(last) {
			from, err1 := strconv.Atoi(first)
			to, err2 := strconv.Atoi(last)
			if err1 != nil || err2 != nil || from > to || to >= snapshot.MaxGPUs {
				return "", nil, usagef(form, "%q is no range of GPUs", word)
			}
			list = nil
			for i := from; i <= to; i++ {
				list = append(list, strconv.Itoa(i))
			}
		}
		for _, key := range list {
			target, hint := booking.ParseTarget(key)
			if hint != "" {
				return "", nil, usagef(form, "%s", hint)
			}
			if !have[target] {
				have[target] = true
				targets = append(targets, target)
			}
		}
	}
	return host, targets, nil
}

func digits(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// place is how commands and messages name what a booking is for.
func placeOf(b booking.Booking) string {
	if b.Target.All {
		return b.Host
	}
	return b.Host + ":" + b.Target.String()
}

// places names several in short: "gpu01:0,1 and gpu02".
func places(bookings []booking.Booking) string {
	var words []string
	last := ""
	for _, b := range bookings {
		if b.Host == last && !b.Target.All && strings.Contains(words[len(words)-1], ":") {
			words[len(words)-1] += "," + b.Target.String()
			continue
		}
		words = append(words, placeOf(b))
		last = b.Host
	}
	if n := len(words); n > 1 {
		return strings.Join(words[:n-1], ", ") + " and " + words[n-1]
	}
	return strings.Join(words, "")
}
