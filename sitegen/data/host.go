package data

import (
	"strings"
	"time"

	"gpuboard/internal/board"
	"gpuboard/internal/snapshot"
	"gpuboard/sitegen/render"
)

// apiHostFields is one host without the braces around it, so that the same
// bytes stand in board.json and in the host's own file. Nothing in it depends
// on when the site was generated: a time span is told as of the snapshot.
func apiHostFields(h *board.Host) []byte {
	size := 1024
	for i := range h.GPUs {
		size += 1024 + 320*len(h.GPUs[i].Processes)
	}
	e := &apiEnc{b: make([]byte, 0, size)}
	apiHostHead(e, h)
	apiNode(e, h)
	e.array("gpus")
	for i := range h.GPUs {
		apiGPU(e, &h.GPUs[i], h.SnapshotAt)
	}
	e.close(']')
	return e.b
}

func apiHostHead(e *apiEnc, h *board.Host) {
	e.str("name", h.Name)
	e.strNull("title", h.Title)
	e.strNull("group", h.Group)
	e.strNull("owner", h.Owner)
	e.strNull("note", h.Note)
	e.strNull("address", h.Address)
	e.strNull("datacenter", h.Datacenter)
	e.strs("tags", h.Tags)
	e.str("state", string(h.State))
	e.strNull("check", h.Check)
	e.time("snapshot_at", h.SnapshotAt)
	e.float("clock_offset_seconds", h.ClockOffset.Seconds())
	e.time("gone_since", h.GoneSince)
	if h.Interval > 0 {
		e.int64("interval_seconds", int64(h.Interval.Seconds()))
	} else {
		e.null("interval_seconds")
	}
	e.strNull("driver_version", h.Driver)
	e.strNull("cuda_version", h.CUDA)
	e.int("free", h.Free)
	apiModels(e, h.Models)
	apiProblems(e, h.Problems)
}

func apiNode(e *apiEnc, h *board.Host) {
	n := &h.Node
	e.object("node")
	e.int64Ptr("uptime_seconds", n.UptimeSeconds)
	e.intPtr("cores", n.Cores)
	e.floatPtr("load1", n.Load1)
	e.floatPtr("load5", n.Load5)
	e.floatPtr("load15", n.Load15)
	e.int64Ptr("memory_total_mib", n.MemoryTotal)
	e.int64Ptr("memory_used_mib", n.MemoryUsed)
	e.strNull("os", n.OS)
	e.strNull("kernel", n.Kernel)
	e.array("disks")
	for i := range n.Disks {
		e.elem()
		e.str("mount", n.Disks[i].Mount)
		e.int64("total_mib", n.Disks[i].Total)
		e.int64("used_mib", n.Disks[i].Used)
		e.close('}')
	}
	e.close(']')
	e.array("disk_users")
	for i := range n.DiskUsers {
		e.elem()
		e.str("path", n.DiskUsers[i].Path)
		e.str("user", n.DiskUsers[i].User)
		e.int64("used_mib", n.DiskUsers[i].Used)
		e.close('}')
	}
	e.close(']')
	e.array("interfaces")
	for i := range n.Interfaces {
		e.elem()
		e.str("name", n.Interfaces[i].Name)
		e.strs("addrs", n.Interfaces[i].Addrs)
		e.close('}')
	}
	e.close(']')
	e.close('}')
}

func apiGPU(e *apiEnc, g *board.GPU, snapshotAt time.Time) {
	e.elem()
	e.int("index", g.Index)
	e.strNull("uuid", g.UUID)
	e.strNull("pci_bus_id", g.PCIBusID)
	e.strNull("name", g.Name)
	e.strNull("short_name", g.ShortName)
	e.str("state", string(g.State))
	e.strNull("reason", g.Reason)
	e.bool("missing", g.Missing)
	e.strNull("health", string(g.Health))
	e.strNull("health_reason", g.HealthReason)
	if x := g.XID; x == nil {
		e.null("xid")
	} else {
		e.object("xid")
		e.int("code", x.Code)
		e.time("at", x.At.Time)
		e.str("meaning", render.EnglishXID(x.Code))
		e.close('}')
	}
	e.int64Ptr("memory_total_mib", g.MemoryTotal)
	e.int64Ptr("memory_used_mib", g.MemoryUsed)
	e.int64Ptr("memory_free_mib", g.MemoryFree)
	e.bool("memory_shared", g.MemoryShared)
	e.intPtr("utilization_gpu_percent", g.UtilizationGPU)
	e.intPtr("utilization_memory_percent", g.UtilizationMemory)
	e.intPtr("temperature_celsius", g.Temperature)
	e.floatPtr("power_draw_watts", g.PowerDraw)
	e.floatPtr("power_limit_watts", g.PowerLimit)
	e.intPtr("fan_percent", g.Fan)
	e.intPtr("pcie_width", g.PCIeWidth)
	e.intPtr("pcie_width_max", g.PCIeWidthMax)
	e.intPtr("clock_sm_mhz", g.ClockSM)
	e.intPtr("clock_memory_mhz", g.ClockMemory)
	e.strNull("pstate", g.PState)
	e.strs("throttle_reasons", g.ThrottleReasons)
	apiFabric(e, g.Fabric)
	apiECC(e, &g.GPU)
	e.strNull("mig_mode", g.MIGMode)
	e.array("mig_devices")
	for i := range g.Slices {
		apiSlice(e, &g.Slices[i], snapshotAt)
	}
	e.close(']')
	apiRow(e, g, snapshotAt)
	e.close('}')
}

// apiSlice writes a MIG slice of a GPU: what it has in common with a GPU, under
// the same names.
func apiSlice(e *apiEnc, g *board.GPU, snapshotAt time.Time) {
	e.elem()
	e.int("index", g.Slice.Index)
	e.intPtr("gpu_instance_id", g.Slice.GPUInstanceID)
	e.intPtr("compute_instance_id", g.Slice.ComputeInstanceID)
	e.strNull("uuid", g.UUID)
	e.strNull("profile", g.Slice.Profile)
	e.strNull("name", g.Name)
	e.strNull("short_name", g.ShortName)
	e.str("state", string(g.State))
	e.strNull("reason", g.Reason)
	e.int64Ptr("memory_total_mib", g.MemoryTotal)
	e.int64Ptr("memory_used_mib", g.MemoryUsed)
	apiRow(e, g, snapshotAt)
	e.close('}')
}

// apiRow writes who has a GPU or slice, and since and until when.
func apiRow(e *apiEnc, g *board.GPU, snapshotAt time.Time) {
	e.array("processes")
	for i := range g.Processes {
		apiProcess(e, &g.Processes[i])
	}
	e.close(']')
	e.strNull("processes_unknown", g.ProcessesUnknown)
	e.key("booking")
	apiBookingOrNull(e, g.Booking)
	e.key("next_booking")
	apiBookingOrNull(e, g.Next)
	e.array("other_bookings")
	for i := range g.Others {
		e.sep()
		apiBooking(e, &g.Others[i])
	}
	e.close(']')
	e.time("since", g.Since)
	e.time("idle_since", g.IdleSince)
	if g.IdleSince.IsZero() || snapshotAt.IsZero() {
		e.null("idle_for_seconds")
	} else {
		e.int64("idle_for_seconds", int64(g.IdleFor(snapshotAt).Seconds()))
	}
	e.bool("no_show", g.NoShow)
	e.time("free_from", g.FreeFrom)
	e.time("free_until", g.FreeUntil)
	if g.Last == nil {
		e.null("last_seen")
	} else {
		e.object("last_seen")
		e.str("state", string(g.Last.State))
		e.strs("users", g.Last.Users)
		e.time("at", g.Last.At)
		e.close('}')
	}
}

func apiECC(e *apiEnc, g *snapshot.GPU) {
	if g.ECC == nil {
		e.null("ecc")
	} else {
		e.object("ecc")
		e.strNull("mode", g.ECC.Mode)
		e.int64Ptr("corrected_volatile", g.ECC.CorrectedVolatile)
		e.int64Ptr("uncorrected_volatile", g.ECC.UncorrectedVolatile)
		e.int64Ptr("corrected_aggregate", g.ECC.CorrectedAggregate)
		e.int64Ptr("uncorrected_aggregate", g.ECC.UncorrectedAggregate)
		e.close('}')
	}
	e.intPtr("retired_pages", g.RetiredPages)
	if g.RemappedRows == nil {
		e.null("remapped_rows")
		return
	}
	e.object("remapped_rows")
	e.intPtr("correctable", g.RemappedRows.Correctable)
	e.intPtr("uncorrectable", g.RemappedRows.Uncorrectable)
	e.boolPtr("pending", g.RemappedRows.Pending)
	e.boolPtr("failure", g.RemappedRows.Failure)
	e.close('}')
}

func apiFabric(e *apiEnc, f *snapshot.Fabric) {
	if f == nil {
		e.null("fabric")
		return
	}
	e.object("fabric")
	e.strNull("state", f.State)
	e.strNull("status", f.Status)
	e.intPtr("clique_id", f.CliqueID)
	e.strNull("cluster_uuid", f.ClusterUUID)
	e.close('}')
}

func apiProcess(e *apiEnc, p *board.Process) {
	e.elem()
	e.int("pid", p.PID)
	e.strNull("user", p.User)
	e.strNull("person", p.Person)
	e.strNull("program", p.Program)
	e.int64Ptr("used_memory_mib", p.UsedMemory)
	e.floatPtr("share", p.Share)
	e.timePtr("started_at", p.StartedAt)
	e.strNull("type", string(p.Type))
	e.boolPtr("alive", p.Alive)
	e.strNull("container", p.Container)
	e.intPtr("gpu_instance_id", p.GPUInstanceID)
	e.intPtr("compute_instance_id", p.ComputeInstanceID)
	e.array("children")
	for i := range p.Children {
		e.elem()
		e.int("pid", p.Children[i].PID)
		e.strNull("user", p.Children[i].User)
		e.strNull("program", p.Children[i].Program)
		e.close('}')
	}
	e.close(']')
	e.close('}')
}

func apiBookingOrNull(e *apiEnc, b *board.Booking) {
	if b == nil {
		e.b = append(e.b, "null"...)
		return
	}
	apiBooking(e, b)
}

// apiBooking writes a booking as a value. "until" is null for an open-ended
// one, "from" for one that has no start of its own; "gpus" is empty for the
// whole host.
func apiBooking(e *apiEnc, b *board.Booking) {
	e.open('{')
	e.str("id", b.ID)
	e.str("host", b.Host)
	e.ints("gpus", b.GPUs)
	e.strNull("uuid", b.UUID)
	e.str("name", b.Name)
	e.time("from", b.From)
	e.time("until", b.Until)
	e.str("comment", b.Comment)
	e.str("kind", b.Kind)
	e.strNull("by", b.By)
	e.bool("active", b.Active)
	e.bool("expired", b.Expired)
	e.bool("forced", b.Forced)
	e.intPtr("mig_device", b.Slice)
	e.close('}')
}

func apiFree(in render.Input) []byte {
	b := in.Board
	e := &apiEnc{b: make([]byte, 0, 1024+128*len(b.FreeNow))}
	apiHeader(in, e)
	e.int("free", b.Totals.Free())
	e.int("gpus", b.Totals.GPUs)
	apiModels(e, b.Models)
	e.array("free_now")
	for i := range b.FreeNow {
		e.sep()
		apiFreeGPU(e, &b.FreeNow[i])
	}
	e.close(']')
	e.key("next_free")
	if b.NextFree == nil {
		e.b = append(e.b, "null"...)
	} else {
		apiFreeGPU(e, b.NextFree)
	}
	return e.end()
}

func apiFreeGPU(e *apiEnc, f *board.FreeGPU) {
	e.open('{')
	e.str("host", f.Host)
	e.strNull("title", f.Title)
	e.int("gpu", f.GPU)
	e.intPtr("mig_device", f.Slice)
	e.strNull("uuid", f.UUID)
	e.str("model", f.Model)
	e.int64Ptr("memory_total_mib", f.Memory)
	e.time("from", f.From)
	e.time("until", f.Until)
	e.strNull("held_by", f.By)
	e.close('}')
}

// apiHosts is the list of hosts without their GPUs: the small file to poll.
func apiHosts(in render.Input) []byte {
	b := in.Board
	e := &apiEnc{b: make([]byte, 0, 1024+1024*len(b.Hosts))}
	apiHeader(in, e)
	e.array("hosts")
	for i := range b.Hosts {
		h := &b.Hosts[i]
		e.elem()
		apiHostHead(e, h)
		e.int("gpus", h.CountUnits())
		e.str("href", "hosts/"+h.Name+".json")
		e.close('}')
	}
	e.close(']')
	return e.end()
}

func apiUsers(in render.Input) []byte {
	b := in.Board
	e := &apiEnc{b: make([]byte, 0, 1024+256*len(b.Users))}
	apiHeader(in, e)
	e.array("users")
	for i := range b.Users {
		u := &b.Users[i]
		e.elem()
		e.str("name", u.Name)
		e.int("reserved_gpus", u.Reserved)
		e.float("used_gpus", u.Used)
		e.int64("used_memory_mib", u.Memory)
		e.int("processes", u.Processes)
		e.int("idle_gpus", u.IdleGPUs)
		e.floatPtr("mean_used_gpus_2h", u.Mean2h)
		e.floatPtr("mean_used_gpus_24h", u.Mean24h)
		e.floatPtr("mean_used_gpus_1w", u.Mean1w)
		e.array("where")
		for j := range u.Where {
			e.elem()
			e.str("host", u.Where[j].Host)
			e.ints("gpus", u.Where[j].GPUs)
			e.close('}')
		}
		e.close(']')
		e.close('}')
	}
	e.close(']')
	return e.end()
}

func apiBookings(in render.Input) []byte {
	b := in.Board
	e := &apiEnc{b: make([]byte, 0, 1024+320*len(b.Bookings))}
	apiHeader(in, e)
	e.time("stale_since", b.BookingsStaleSince)
	e.array("bookings")
	for i := range b.Bookings {
		e.sep()
		apiBooking(e, &b.Bookings[i])
	}
	e.close(']')
	e.array("problems")
	for i := range b.Problems {
		if p := &b.Problems[i]; strings.HasPrefix(p.Code, "booking:") {
			apiProblem(e, p)
		}
	}
	e.close(']')
	return e.end()
}
