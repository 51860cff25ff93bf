package node

import (
	"testing"
	"time"
)

func TestPace(t *testing.T) {
	const ms, s = time.Millisecond, time.Second
	for name, c := range map[string]struct {
		fixed    time.Duration
		readings []time.Duration
		want     time.Duration
	}{
		"before the first reading":       {0, nil, 5 * s},
		"quick":                          {0, []time.Duration{80 * ms}, 5 * s},
		"a twentieth at most":            {0, []time.Duration{251 * ms}, 10 * s},
		"a second, as without a daemon":  {0, []time.Duration{1 * s}, 20 * s},
		"never more than a minute":       {0, []time.Duration{9 * s}, time.Minute},
		"the first one waits for driver": {0, []time.Duration{12 * s, 200 * ms}, 5 * s},
		"one of five is slow":            {0, []time.Duration{200 * ms, 200 * ms, 8 * s, 210 * ms, 190 * ms}, 5 * s},
		"slow since a while": {0, []time.Duration{200 * ms, 200 * ms, 200 * ms, 2 * s, 2 * s, 2 * s},
			time.Minute},
		"a number is kept": {7 * s, []time.Duration{9 * s}, 7 * s},
	} {
		p := &pace{fixed: c.fixed}
		for _, d := range c.readings {
			p.took(d)
		}
		if got := p.interval(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
