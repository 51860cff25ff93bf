package data

import (
	"errors"
	"fmt"
	"io"
	"time"

	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// The files in which a site publishes who used how much, in the windows of [render.WindowNames].
const (
	UsersPastPath = "api/v1/history/users.json"
	HostsPastPath = "api/v1/history/hosts.json"
)

// A Usage is who used how much in one window, by person, team or host. A window that was read has the list of its
// file alone, and costs and CO2 follow from Energy.
type Usage struct {
	render.Window
	Energy render.Energy
}

// ErrNoWindow says that a file has no window of that name.
var ErrNoWindow = errors.New("no such window is published")

// readUse is what [useOf] writes.
type readUse struct {
	Name        string   `json:"name"`
	GPUHours    float64  `json:"gpu_hours"`
	Utilization *float64 `json:"utilization_percent"`
	IdleHours   float64  `json:"idle_hours"`
	EnergyKWh   float64  `json:"energy_kwh"`
	FreeHours   float64  `json:"free_hours"`
	KnownHours  float64  `json:"known_gpu_hours"`
	Coverage    float64  `json:"coverage"`
}

func (u *readUse) user() render.UserPast {
	return render.UserPast{Name: snapshot.Text(u.Name, render.MaxText), Use: render.Use{
		GPUHours: u.GPUHours, Utilization: u.Utilization, IdleHours: u.IdleHours, EnergyKWh: u.EnergyKWh,
	}}
}

func (u *readUse) host() render.PastHost {
	user := u.user()
	return render.PastHost{
		Name: user.Name, Use: user.Use, FreeHours: u.FreeHours, KnownHours: u.KnownHours, Coverage: u.Coverage,
	}
}

// ReadUsage reads one window of one of these files.
func ReadUsage(r io.Reader, name string) (*Usage, error) {
	var doc struct {
		Schema int `json:"schema_version"`
		Energy struct {
			Price    float64 `json:"price_per_kwh"`
			Currency string  `json:"currency"`
			CO2      float64 `json:"co2_grams_per_kwh"`
		} `json:"energy"`
		Windows []struct {
			Name     string    `json:"name"`
			From     time.Time `json:"from"`
			Until    time.Time `json:"until"`
			Coverage float64   `json:"coverage"`
			Users    []readUse `json:"users"`
			Teams    []readUse `json:"teams"`
			Hosts    []readUse `json:"hosts"`
		} `json:"windows"`
	}
	if err := readJSON(r, &doc, &doc.Schema); err != nil {
		return nil, fmt.Errorf("reading who used how much: %w", err)
	}
	for _, w := range doc.Windows {
		if w.Name != name {
			continue
		}
		u := &Usage{Window: render.Window{
			From: readable(w.From), To: readable(w.Until), Coverage: w.Coverage,
			Users: docsOf(w.Users, (*readUse).user), Teams: docsOf(w.Teams, (*readUse).user),
			Hosts: docsOf(w.Hosts, (*readUse).host),
		}}
		u.Energy = render.Energy{
			Price: doc.Energy.Price, Currency: snapshot.Text(doc.Energy.Currency, render.MaxText), CO2Grams: doc.Energy.CO2,
		}
		return u, nil
	}
	return nil, fmt.Errorf("reading who used how much: %w: %s", ErrNoWindow, name)
}

// By is the use of each person, team or host.
func (u *Usage) By(what string) []render.UserPast {
	switch what {
	case "team":
		return u.Teams
	case "host":
		return docsOf(u.Hosts,
			func(h *render.PastHost) render.UserPast { return render.UserPast{Name: h.Name, Use: h.Use} })
	}
	return u.Users
}

func (u *Usage) input() render.Input { return render.Input{Site: render.Site{Energy: u.Energy}} }

// CSV has a line for each person, team or host.
func (u *Usage) CSV(by string) []byte {
	lines := [][]string{{by, "from", "until", "coverage", "gpu_hours", "utilization_percent", "idle_hours",
		"energy_kwh", "cost", "co2_kg"}}
	for _, one := range u.By(by) {
		line := []string{csvText(one.Name), csvTime(u.From), csvTime(u.To), csvNumber(u.Coverage)}
		lines = append(lines, append(line, csvUse(u.input(), one.Use)...))
	}
	return csvFile(lines)
}

// JSON has the same with the member names of the site's files.
func (u *Usage) JSON(by string) []byte {
	return encodeFile(object{
		{"schema_version", SchemaVersion}, {"from", u.From}, {"until", u.To}, {"coverage", u.Coverage},
		{"by", by}, {"currency", u.Energy.Currency},
		{"usage", docsOf(u.By(by), func(one *render.UserPast) object {
			return append(object{{"name", safe(one.Name)}}, useOf(u.input(), one.Use)...)
		})},
	})
}
