package data

import (
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
)

type (
	gpuDoc struct {
		Index        int     `json:"index"`
		Vendor       safe    `json:"vendor"`
		UUID         string  `json:"uuid"`
		PCIBusID     string  `json:"pci_bus_id"`
		Name         string  `json:"name"`
		ShortName    string  `json:"short_name"`
		State        safe    `json:"state"`
		Reason       string  `json:"reason"`
		Missing      bool    `json:"missing"`
		Health       string  `json:"health"`
		HealthReason string  `json:"health_reason"`
		XID          *xidDoc `json:"xid"`
		MemoryTotal  *int64  `json:"memory_total_mib"`
		MemoryUsed   *int64  `json:"memory_used_mib"`
		MemoryFree   *int64  `json:"memory_free_mib"`
		MemoryShared bool    `json:"memory_shared"`
		snapshot.Readings
		PState          string             `json:"pstate"`
		ThrottleReasons []string           `json:"throttle_reasons"`
		Fabric          *snapshot.Fabric   `json:"fabric"`
		ECC             *snapshot.ECC      `json:"ecc"`
		RetiredPages    *int               `json:"retired_pages"`
		RemappedRows    *snapshot.Remapped `json:"remapped_rows"`
		MIGMode         string             `json:"mig_mode"`
		MIGDevices      []sliceDoc         `json:"mig_devices"`
		rowDoc
	}
	// A sliceDoc has what a slice has in common with a GPU under the same names.
	sliceDoc struct {
		Index             int    `json:"index"`
		GPUInstanceID     *int   `json:"gpu_instance_id"`
		ComputeInstanceID *int   `json:"compute_instance_id"`
		UUID              string `json:"uuid"`
		Profile           string `json:"profile"`
		Name              string `json:"name"`
		ShortName         string `json:"short_name"`
		State             safe   `json:"state"`
		Reason            string `json:"reason"`
		MemoryTotal       *int64 `json:"memory_total_mib"`
		MemoryUsed        *int64 `json:"memory_used_mib"`
		rowDoc
	}
	// A rowDoc is who has a GPU or slice, and since and until when.
	rowDoc struct {
		CountedAt        string          `json:"counted_at,omitempty"`
		Users            []string        `json:"users"`
		LikelyUsers      []string        `json:"likely_users"`
		Unknown          []string        `json:"unknown_users"`
		Left             []string        `json:"left"`
		Processes        []processDoc    `json:"processes"`
		ProcessesUnknown string          `json:"processes_unknown"`
		Booking          *bookingDoc     `json:"booking"`
		Next             *bookingDoc     `json:"next_booking"`
		Others           []bookingDoc    `json:"other_bookings"`
		Since            time.Time       `json:"since"`
		IdleSince        time.Time       `json:"idle_since"`
		IdleFor          *int64          `json:"idle_for_seconds"`
		NoShow           bool            `json:"no_show"`
		FreeFrom         time.Time       `json:"free_from"`
		FreeUntil        time.Time       `json:"free_until"`
		Last             *board.LastSeen `json:"last_seen"`
	}
	claimDoc struct {
		User   string `json:"user"`
		Source string `json:"source"`
	}
	processDoc struct {
		PID               int              `json:"pid"`
		User              string           `json:"user"`
		UID               *int64           `json:"uid"`
		Person            string           `json:"person"`
		LikelyUser        string           `json:"likely_user"`
		UserSource        string           `json:"user_source"`
		Conflict          []claimDoc       `json:"user_conflict"`
		Program           string           `json:"program"`
		UsedMemory        *int64           `json:"used_memory_mib"`
		Share             *float64         `json:"share"`
		StartedAt         *snapshot.Time   `json:"started_at"`
		Type              string           `json:"type"`
		Computes          bool             `json:"computes"`
		Alive             *bool            `json:"alive"`
		Container         string           `json:"container"`
		ContainerName     string           `json:"container_name"`
		Pod               string           `json:"pod"`
		Unit              string           `json:"unit"`
		Job               string           `json:"job"`
		GPUInstanceID     *int             `json:"gpu_instance_id"`
		ComputeInstanceID *int             `json:"compute_instance_id"`
		Children          []snapshot.Child `json:"children"`
	}
)

func gpuOf(g *board.GPU, snapshotAt time.Time) gpuDoc {
	doc := gpuDoc{
		Index: g.Index, Vendor: safe(g.Maker()), UUID: g.UUID, PCIBusID: g.PCIBusID, Name: g.Name,
		ShortName: g.ShortName,
		State:     safe(g.State), Reason: g.Reason, Missing: g.Missing, Health: string(g.Health),
		HealthReason: g.HealthReason,
		XID:          orNull(g.XID, xidOf),
		MemoryTotal:  g.MemoryTotal, MemoryUsed: g.MemoryUsed, MemoryFree: g.MemoryFree, MemoryShared: g.MemoryShared,
		Readings: g.Readings, PState: g.PState, ThrottleReasons: g.ThrottleReasons,
		Fabric: g.Fabric, ECC: g.ECC, RetiredPages: g.RetiredPages, RemappedRows: g.RemappedRows, MIGMode: g.MIGMode,
		rowDoc: rowOf(g, snapshotAt),
	}
	doc.MIGDevices = docsOf(g.Slices, func(s *board.GPU) sliceDoc {
		return sliceDoc{
			Index: s.Slice.Index, GPUInstanceID: s.Slice.GPUInstanceID, ComputeInstanceID: s.Slice.ComputeInstanceID,
			UUID: s.UUID, Profile: s.Slice.Profile, Name: s.Name, ShortName: s.ShortName,
			State: safe(s.State), Reason: s.Reason, MemoryTotal: s.MemoryTotal, MemoryUsed: s.MemoryUsed,
			rowDoc: rowOf(s, snapshotAt),
		}
	})
	return doc
}

// namesOf names people and unknown users, as text does.
func namesOf(owners []snapshot.Owner) []string {
	return docsOf(owners, func(o *snapshot.Owner) string { return o.String() })
}

func rowOf(g *board.GPU, snapshotAt time.Time) rowDoc {
	return rowDoc{
		CountedAt: g.CountedAt, Users: g.Users(), LikelyUsers: g.Likely(),
		Unknown: namesOf(g.Unknown()), Left: namesOf(g.Left()),
		ProcessesUnknown: g.ProcessesUnknown,

		Booking: orNull(g.Booking, bookingOf), Next: orNull(g.Next, bookingOf), Others: docsOf(g.Others, bookingOf),
		Since: g.Since, IdleSince: g.IdleSince, IdleFor: idleFor(g, snapshotAt), NoShow: g.NoShow,
		FreeFrom: g.FreeFrom, FreeUntil: g.FreeUntil, Last: g.Last,
		Processes: docsOf(g.Processes, processOf),
	}
}

func processOf(p *board.Process) processDoc {
	doc := processDoc{
		PID: p.PID, User: p.User, Person: p.Person, LikelyUser: p.Likely,
		Program: p.Program, UsedMemory: p.UsedMemory, Share: p.Share,
		StartedAt: p.StartedAt,
		Type:      string(p.Type), Computes: p.Computes, Alive: p.Alive, Container: p.Container,
		ContainerName: p.ContainerName, Pod: p.Pod, Unit: p.Unit, Job: p.Job,
		GPUInstanceID: p.GPUInstanceID, ComputeInstanceID: p.ComputeInstanceID,
		Children: p.Children,
	}

	switch len(p.By) {
	case 1:
		doc.UserSource = string(p.By[0].Source)
	case 2:
		doc.Conflict = docsOf(p.By, func(c *snapshot.Claim) claimDoc { return claimDoc{c.User, string(c.Source)} })
	}
	switch {
	case p.Likely != "":
		doc.User = "" // that account is a guess
	case p.Person == "":
		doc.UID = p.UID // may be all that is known
	}
	return doc
}
