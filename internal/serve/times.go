package serve

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/sitegen/page"
	"gpuboard/sitegen/render"
)

// What a request for times may hold: the form's fields take no longer texts, and no zone has a longer name.
const (
	maxTimeText = 100
	maxZoneName = 64
)

// A timesAnswer is what book/times.json says of a beginning and an end as somebody types them.
type timesAnswer struct {
	Zone  string `json:"zone"`            // in which they were read
	From  string `json:"from,omitempty"`  // the beginning, which means the same in every zone
	Until string `json:"until,omitempty"` // the end, likewise, or "never"
	Says  string `json:"says,omitempty"`  // both in the words of the page
	Note  string `json:"note,omitempty"`  // what was assumed, in the words of the command
	Error string `json:"error,omitempty"` // why they cannot be booked, in the words of the command
}

// times answers what two texts mean as times. It knows no bookings and no people, so everybody may ask.
func (d *bookingForm) times(q url.Values) timesAnswer {
	policy := booking.Policy{Now: d.Now(), Zone: d.zone(q.Get("zone"))}
	answer := timesAnswer{Zone: page.ZoneName(policy.Zone, policy.Now)}
	fromText, untilText := strings.TrimSpace(q.Get("from")), strings.TrimSpace(q.Get("until"))
	if untilText == "" {
		return answer
	}

	from, until, notes, err := policy.Times(fromText, untilText)
	if err != nil {
		answer.Error = err.Error()
		return answer
	}
	answer.From, answer.Until = booking.EndText(from.In(policy.Zone)), booking.EndText(until.In(policy.Zone))
	answer.Says = d.Pages.In(q.Get("lang")).Period(from, until, policy.Now, policy.Zone)
	answer.Note = strings.Join(notes, "; ")
	return answer
}

// answerTimes sends what texts mean as times, if they are no longer than those of a form.
func (d *bookingForm) answerTimes(w http.ResponseWriter, r *http.Request) {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "", "none", "same-origin": // over plain HTTP, browsers do not say
	default:
		http.Error(w, "only pages of this site are answered", http.StatusForbidden)
		return
	}
	q := r.URL.Query()
	if len(q.Get("from")) > maxTimeText || len(q.Get("until")) > maxTimeText {
		http.Error(w, fmt.Sprintf("a time has at most %d characters", maxTimeText), http.StatusRequestEntityTooLarge)
		return
	}
	body, _ := json.Marshal(d.times(q)) // strings always can be written
	w.Header().Set("Content-Type", render.ContentType("times.json"))
	_, _ = w.Write(body) // the client may have disconnected
}

// zone is the time zone that a browser says it is in, or the site's if that is not known here.
func (d *bookingForm) zone(name string) *time.Location {
	if zone, err := time.LoadLocation(name); err == nil && name != "" && name != "Local" && len(name) <= maxZoneName {
		return zone
	}
	return d.Zone
}
