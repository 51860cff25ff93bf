package data

import (
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
)

type (
	gpuDoc struct {
		Index             int                `json:"index"`
		UUID              known              `json:"uuid"`
		PCIBusID          known              `json:"pci_bus_id"`
		Name              known              `json:"name"`
		ShortName         known              `json:"short_name"`
		State             safe               `json:"state"`
		Reason            known              `json:"reason"`
		Missing           bool               `json:"missing"`
		Health            known              `json:"health"`
		HealthReason      known              `json:"health_reason"`
		XID               *xidDoc            `json:"xid"`
		MemoryTotal       *int64             `json:"memory_total_mib"`
		MemoryUsed        *int64             `json:"memory_used_mib"`
		MemoryFree        *int64             `json:"memory_free_mib"`
		MemoryShared      bool               `json:"memory_shared"`
		UtilizationGPU    *int               `json:"utilization_gpu_percent"`
		UtilizationMemory *int               `json:"utilization_memory_percent"`
		Temperature       *int               `json:"temperature_celsius"`
		PowerDraw         *reading           `json:"power_draw_watts"`
		PowerLimit        *reading           `json:"power_limit_watts"`
		Fan               *int               `json:"fan_percent"`
		PCIeWidth         *int               `json:"pcie_width"`
		PCIeWidthMax      *int               `json:"pcie_width_max"`
		ClockSM           *int               `json:"clock_sm_mhz"`
		ClockMemory       *int               `json:"clock_memory_mhz"`
		PState            known              `json:"pstate"`
		ThrottleReasons   []safe             `json:"throttle_reasons"`
		Fabric            *fabricDoc         `json:"fabric"`
		ECC               *eccDoc            `json:"ecc"`
		RetiredPages      *int               `json:"retired_pages"`
		RemappedRows      *snapshot.Remapped `json:"remapped_rows"`
		MIGMode           known              `json:"mig_mode"`
		MIGDevices        []sliceDoc         `json:"mig_devices"`
		rowDoc
	}
	// A sliceDoc has what a slice has in common with a GPU under the same names.
	sliceDoc struct {
		Index             int    `json:"index"`
		GPUInstanceID     *int   `json:"gpu_instance_id"`
		ComputeInstanceID *int   `json:"compute_instance_id"`
		UUID              known  `json:"uuid"`
		Profile           known  `json:"profile"`
		Name              known  `json:"name"`
		ShortName         known  `json:"short_name"`
		State             safe   `json:"state"`
		Reason            known  `json:"reason"`
		MemoryTotal       *int64 `json:"memory_total_mib"`
		MemoryUsed        *int64 `json:"memory_used_mib"`
		rowDoc
	}
	// A rowDoc is who has a GPU or slice, and since and until when.
	rowDoc struct {
		CountedAt        known        `json:"counted_at,omitempty"`
		Users            []safe       `json:"users"`
		Unknown          []safe       `json:"unknown_users"`
		Left             []safe       `json:"left"`
		Processes        []processDoc `json:"processes"`
		ProcessesUnknown known        `json:"processes_unknown"`
		Booking          *bookingDoc  `json:"booking"`
		Next             *bookingDoc  `json:"next_booking"`
		Others           []bookingDoc `json:"other_bookings"`
		Since            moment       `json:"since"`
		IdleSince        moment       `json:"idle_since"`
		IdleFor          *int64       `json:"idle_for_seconds"`
		NoShow           bool         `json:"no_show"`
		FreeFrom         moment       `json:"free_from"`
		FreeUntil        moment       `json:"free_until"`
		Last             *lastDoc     `json:"last_seen"`
	}
	processDoc struct {
		PID               int        `json:"pid"`
		User              known      `json:"user"`
		Person            known      `json:"person"`
		Program           known      `json:"program"`
		UsedMemory        *int64     `json:"used_memory_mib"`
		Share             *reading   `json:"share"`
		StartedAt         *moment    `json:"started_at"`
		Type              known      `json:"type"`
		Alive             *bool      `json:"alive"`
		Container         known      `json:"container"`
		GPUInstanceID     *int       `json:"gpu_instance_id"`
		ComputeInstanceID *int       `json:"compute_instance_id"`
		Children          []childDoc `json:"children"`
	}
	childDoc struct {
		PID     int   `json:"pid"`
		User    known `json:"user"`
		Program known `json:"program"`
	}
)

func gpuOf(g *board.GPU, snapshotAt time.Time) gpuDoc {
	doc := gpuDoc{
		Index: g.Index, UUID: known(g.UUID), PCIBusID: known(g.PCIBusID), Name: known(g.Name), ShortName: known(g.ShortName),
		State: safe(g.State), Reason: known(g.Reason), Missing: g.Missing, Health: known(g.Health), HealthReason: known(g.HealthReason), XID: orNull(g.XID, xidOf),
		MemoryTotal: g.MemoryTotal, MemoryUsed: g.MemoryUsed, MemoryFree: g.MemoryFree, MemoryShared: g.MemoryShared,
		UtilizationGPU: g.UtilizationGPU, UtilizationMemory: g.UtilizationMemory, Temperature: g.Temperature,
		PowerDraw: (*reading)(g.PowerDraw), PowerLimit: (*reading)(g.PowerLimit), Fan: g.Fan, PCIeWidth: g.PCIeWidth, PCIeWidthMax: g.PCIeWidthMax,
		ClockSM: g.ClockSM, ClockMemory: g.ClockMemory, PState: known(g.PState), ThrottleReasons: safes(g.ThrottleReasons),
		Fabric: orNull(g.Fabric, fabricOf), ECC: orNull(g.ECC, eccOf), RetiredPages: g.RetiredPages, RemappedRows: g.RemappedRows, MIGMode: known(g.MIGMode),
		rowDoc: rowOf(g, snapshotAt),
	}
	doc.MIGDevices = docsOf(g.Slices, func(s *board.GPU) sliceDoc {
		return sliceDoc{
			Index: s.Slice.Index, GPUInstanceID: s.Slice.GPUInstanceID, ComputeInstanceID: s.Slice.ComputeInstanceID,
			UUID: known(s.UUID), Profile: known(s.Slice.Profile), Name: known(s.Name), ShortName: known(s.ShortName),
			State: safe(s.State), Reason: known(s.Reason), MemoryTotal: s.MemoryTotal, MemoryUsed: s.MemoryUsed,
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
		CountedAt: known(g.CountedAt), Users: safes(g.Users()), Unknown: safes(namesOf(g.Unknown())), Left: safes(namesOf(g.Left())),
		ProcessesUnknown: known(g.ProcessesUnknown), Booking: orNull(g.Booking, bookingOf), Next: orNull(g.Next, bookingOf), Others: docsOf(g.Others, bookingOf),
		Since: moment{g.Since}, IdleSince: moment{g.IdleSince}, IdleFor: idleFor(g, snapshotAt), NoShow: g.NoShow,
		FreeFrom: moment{g.FreeFrom}, FreeUntil: moment{g.FreeUntil}, Last: orNull(g.Last, lastOf),
		Processes: docsOf(g.Processes, processOf),
	}
}

func processOf(p *board.Process) processDoc {
	return processDoc{
		PID: p.PID, User: known(p.User), Person: known(p.Person), Program: known(p.Program), UsedMemory: p.UsedMemory, Share: (*reading)(p.Share),
		StartedAt: orNull(p.StartedAt, momentOf), Type: known(p.Type), Alive: p.Alive, Container: known(p.Container),
		GPUInstanceID: p.GPUInstanceID, ComputeInstanceID: p.ComputeInstanceID,
		Children: docsOf(p.Children, func(c *snapshot.Child) childDoc { return childDoc{c.PID, known(c.User), known(c.Program)} }),
	}
}
