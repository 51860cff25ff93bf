package board

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"gpuboard/internal/booking"
	"gpuboard/internal/history"
	"gpuboard/internal/inventory"
	"gpuboard/internal/snapshot"
)

// An Input is everything that a Board is made from.
type Input struct {
	// Now is the one instant of decision of a generation.
	Now time.Time
	// Interval and Next are those of [Board].
	Interval, Next time.Duration
	Hosts          []inventory.Host
	// InventoryAsOf is when the list of hosts was answered, if that was not now.
	InventoryAsOf time.Time
	// Reports is what the drops hold, by host name. A host without one has
	// never been heard of.
	Reports  map[string]Report
	Calendar *booking.Calendar
	// Person maps a Unix user or a name in a booking to the person behind it;
	// nil maps everybody to themselves.
	Person func(string) string
	Recent *history.Recent
	// Marks is what the previous Board left behind.
	Marks    Marks
	Settings Settings
	// Problems is what went wrong while gathering all this.
	Problems []snapshot.Problem
	Demo     bool
	// ID and Sites are those of [Board], where the states of sites are not judged yet.
	ID    string
	Sites []Site
}

// Who returns the person behind a name in history, as [snapshot.Owner.Name] writes it; "" for nobody.
func (in *Input) Who(name string) string {
	of := snapshot.OwnerNamed(name)
	if in.Settings.TrustContainerUIDs && of.Likely != "" {
		of = snapshot.Owner{Person: of.Likely}
	}
	return in.owner(of).Person
}

// owner returns the person behind the owner of a process, as certain or likely as that is. System and service
// accounts are nobody's. So is a name that ps has cut and Person does not know: several people may have it.
func (in *Input) owner(of snapshot.Owner) snapshot.Owner {
	login := of.Login()
	who := login
	if in.Person != nil {
		who = in.Person(login)
	}
	switch {
	case in.nobodys(login) || in.nobodys(who) || who == login && strings.HasSuffix(login, "+"):
		return snapshot.Owner{}
	case of.Likely != "":
		return snapshot.Owner{Likely: who}
	default:
		return snapshot.Owner{Person: who}
	}
}

// whose returns the owner of a process by its account, its node and the site's settings, and the claims that say so,
// as [snapshot.Process.Whose] does.
func (in *Input) whose(p *snapshot.Process) (snapshot.Owner, []snapshot.Claim) {
	set := &in.Settings
	if p.Container == "" {
		return p.Whose()
	}
	for _, c := range set.ContainerPeople {
		byName, _ := path.Match(c.Pattern, p.ContainerName)
		byID, _ := path.Match(c.Pattern, p.Container)
		if byName || byID {
			return p.Whose(snapshot.Claim{User: c.Login, Source: snapshot.BySite})
		}
	}
	if login := p.Login(); set.TrustContainerUIDs && login != "" {
		return p.Whose(snapshot.Claim{User: login, Source: snapshot.BySite})
	}
	return p.Whose()
}

func (in *Input) nobodys(account string) bool {
	return snapshot.SystemAccount(account) || slices.Contains(in.Settings.ServiceAccounts, account)
}

// A Report is what one drop holds.
type Report struct {
	// Snapshot is the newest good one, nil if there never was one.
	Snapshot *snapshot.Snapshot
	// SeenAt is when this very snapshot was first seen here, by our own clock;
	// zero when that is not known.
	SeenAt time.Time
	// Problems says why newer content of the drop could not be used.
	Problems []snapshot.Problem
}

// Settings are the numbers behind the states. The zero value of a field means
// its default.
type Settings struct {
	// StaleAfter is the age from which a snapshot says nothing about now.
	// Default: three intervals of the node, at least a minute.
	StaleAfter time.Duration
	// DownAfter is the age from which a host counts as down. Default 24 h.
	DownAfter time.Duration
	// ClockTolerance is how far a node's clock may be ahead. Default 1 min.
	ClockTolerance time.Duration
	// FreeMemoryMiB and FreeMemoryPercent bound the memory used on a GPU that
	// still counts as free; the larger of the two applies. Defaults 500 and 2.
	FreeMemoryMiB     int64
	FreeMemoryPercent float64
	// NoShow is how long a booked GPU may idle before that is said. Default 2 h.
	NoShow time.Duration
	// IdleWindow is over how long utilization must be low for a GPU to be idle, and how long somebody must have
	// held it. Default 30 min.
	IdleWindow time.Duration
	// IdleNotice is how long somebody may hold a GPU idle before they are told. Default 6 h.
	IdleNotice time.Duration
	// ShowExpired is how long a booking is shown after its end. Default 48 h.
	ShowExpired time.Duration
	// ShortNames maps nvidia-smi's product names to what the page shows.
	ShortNames map[string]string
	// ServiceAccounts are login names of programs that work for others. They count as unknown users.
	ServiceAccounts []string
	// TrustContainerUIDs makes the owner of an ordinary account certain in a container, too.
	TrustContainerUIDs bool
	// ContainerPeople says who is behind containers. The first line that fits counts.
	ContainerPeople []ContainerPerson
}

// A ContainerPerson is a pattern of names of containers, as of [path.Match], and the login of the person behind them.
type ContainerPerson struct{ Pattern, Login string }

// WithDefaults sets the numbers that are zero.
func (s Settings) WithDefaults() Settings {
	s.DownAfter = cmp.Or(max(s.DownAfter, 0), 24*time.Hour)
	s.ClockTolerance = cmp.Or(max(s.ClockTolerance, 0), time.Minute)
	s.FreeMemoryMiB = cmp.Or(max(s.FreeMemoryMiB, 0), 500)
	s.FreeMemoryPercent = cmp.Or(max(s.FreeMemoryPercent, 0), 2)
	s.NoShow = cmp.Or(max(s.NoShow, 0), 2*time.Hour)
	s.IdleWindow = cmp.Or(max(s.IdleWindow, 0), 30*time.Minute)
	s.IdleNotice = cmp.Or(max(s.IdleNotice, 0), 6*time.Hour)
	s.ShowExpired = cmp.Or(max(s.ShowExpired, 0), 48*time.Hour)
	return s
}

// staleAfter is the age at which news of a node with this interval is old.
func (s Settings) staleAfter(interval time.Duration) time.Duration {
	if s.StaleAfter > 0 {
		return s.StaleAfter
	}
	if interval <= 0 {
		interval = time.Minute // one run at a time, as from cron
	}
	return max(3*interval, time.Minute)
}

// freeMemory is the memory in use, in MiB, up to which a GPU counts as free.
func (s Settings) freeMemory(total *int64) int64 {
	limit := s.FreeMemoryMiB
	if total != nil {
		limit = max(limit, int64(float64(*total)*s.FreeMemoryPercent/100))
	}
	return limit
}
