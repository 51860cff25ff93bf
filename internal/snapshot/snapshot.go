// Package snapshot is the contract between a node and the web host: the state of one host
// at one time, its file formats, and the limits of what is accepted.
//
// Data and health are separate. A nil pointer means "unknown", never zero; an empty list
// means that there is none. [Snapshot.Errors] names what could not be read.
package snapshot

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// Schema is the number of the format that this package writes. A reader
// accepts its own number and older ones, and fields that it does not know;
// a larger number is refused, because its meaning may have changed.
const Schema = 1

// A Snapshot is the state of one host at one time.
type Snapshot struct {
	Schema int `json:"schema"`
	// Host is the node's name as [ParseHost] returns it. The web host goes by
	// the drop's directory, never by this field; a difference is shown.
	Host string `json:"host"`
	// BootID is the kernel's random boot id. (BootID, Seq) identifies a snapshot;
	// duplicates are dropped by it.
	BootID string `json:"boot_id"`
	// Seq rises with every snapshot of a boot. The first is at least 1.
	Seq         uint64 `json:"seq"`
	CollectedAt Time   `json:"collected_at"`
	// Collector is the version of the program that collected.
	Collector string `json:"collector_version"`
	// IntervalSeconds is how often this node means to collect; 0 for a single run.
	IntervalSeconds int `json:"interval_seconds"`
	// DriverVersion and CUDAVersion are nvidia-smi's; "" if it does not say.
	DriverVersion string `json:"driver_version,omitempty"`
	CUDAVersion   string `json:"cuda_version,omitempty"`
	// Tools are what answered for the GPUs of other vendors than NVIDIA, one a vendor.
	Tools []Tool `json:"tools,omitempty"`
	// Pulled is true when the web host read the node over SSH, so that nothing runs on the node itself.
	Pulled bool  `json:"pulled,omitempty"`
	Node   Node  `json:"node"`
	GPUs   []GPU `json:"gpus"`
	// GPUsComplete is true when the driver answered in full, so that a GPU that is not
	// listed is gone. When it is false, GPUs that are not listed are unknown.
	GPUsComplete bool      `json:"gpus_complete,omitempty"`
	Processes    []Process `json:"processes"`
	// Errors says what could not be read, in words. It is empty when all went well.
	Errors []Problem `json:"errors"`
}

// A Vendor makes GPUs.
type Vendor string

// The vendors that are read.
const (
	NVIDIA Vendor = "nvidia"
	AMD    Vendor = "amd"
)

// A Tool is a vendor's program, or the files of its driver, and what it says of itself; "" for what it does not say.
type Tool struct {
	Vendor  Vendor `json:"vendor"`
	Name    string `json:"name"` // amd-smi, rocm-smi, or sysfs where no program was asked
	Version string `json:"version,omitempty"`
	Driver  string `json:"driver_version,omitempty"`
}

// Node is the host around the GPUs.
type Node struct {
	UptimeSeconds *int64      `json:"uptime_seconds"`
	Cores         *int        `json:"cores"`
	Load1         *float64    `json:"load1"`
	Load5         *float64    `json:"load5"`
	Load15        *float64    `json:"load15"`
	MemoryTotal   *int64      `json:"memory_total_mib"`
	MemoryUsed    *int64      `json:"memory_used_mib"` // total less available
	OS            string      `json:"os"`
	Kernel        string      `json:"kernel"`
	Disks         []Disk      `json:"disks"`
	DiskUsers     []DiskUser  `json:"disk_users"`
	Interfaces    []Interface `json:"interfaces"`
}

// A Disk is one local file system.
type Disk struct {
	Mount string `json:"mount"`
	Total int64  `json:"total_mib"`
	Used  int64  `json:"used_mib"`
}

// A DiskUser is what one user keeps below one directory, when the node
// measures that.
type DiskUser struct {
	Path string `json:"path"`
	User string `json:"user"`
	Used int64  `json:"used_mib"`
}

// An Interface is one network interface that is up, with its addresses.
type Interface struct {
	Name  string   `json:"name"`
	Addrs []string `json:"addrs"`
}

// Health says what the driver thinks of a GPU. It is a fact of its own: a
// healthy GPU may lack every reading, and a lost one may still show stale ones.
type Health string

// The values of Health.
const (
	HealthOK      Health = "ok"
	HealthLost    Health = "lost"    // fell off the bus, or its handle cannot be had
	HealthError   Health = "error"   // there, and the driver reports an error (reset required, ERR!)
	HealthUnknown Health = "unknown" // it could not be asked
)

// A GPU is one device. Units are nvidia-smi's: MiB, %, °C, W, MHz. NVIDIA's GPUs have the indices that nvidia-smi
// gives them; those of other vendors follow, in the order of their bus addresses.
type GPU struct {
	Index        int    `json:"index"`
	Vendor       Vendor `json:"vendor,omitempty"` // "" for NVIDIA: see [GPU.Maker]
	UUID         string `json:"uuid,omitempty"`
	PCIBusID     string `json:"pci_bus_id,omitempty"`
	Name         string `json:"name,omitempty"`
	MemoryTotal  *int64 `json:"memory_total_mib"`
	MemoryUsed   *int64 `json:"memory_used_mib"`
	MemoryFree   *int64 `json:"memory_free_mib"`
	MemoryShared bool   `json:"memory_shared,omitempty"` // memory and numbers are those of the node, whoever uses them
	Readings
	PState          string      `json:"pstate,omitempty"`
	ThrottleReasons []string    `json:"throttle_reasons,omitempty"` // those active, nvidia-smi's names without their prefix
	ECC             *ECC        `json:"ecc,omitempty"`
	RetiredPages    *int        `json:"retired_pages,omitempty"`
	RemappedRows    *Remapped   `json:"remapped_rows,omitempty"`
	Fabric          *Fabric     `json:"fabric,omitempty"`   // nil where there is none
	MIGMode         string      `json:"mig_mode,omitempty"` // enabled, disabled, or "" where there is no MIG
	MIGDevices      []MIGDevice `json:"mig_devices,omitempty"`
	// ProcessesUnknown says why the processes of this GPU are not known, with the text of
	// nvidia-smi if there is one ("N/A", "Insufficient Permissions"). "" means that all of
	// them are in [Snapshot.Processes].
	ProcessesUnknown string `json:"processes_unknown,omitempty"`
	Health           Health `json:"health"`
	HealthReason     string `json:"health_reason,omitempty"` // the driver's own words
	// XID is the driver's last error in the kernel's log of this boot. It is nil
	// when there is none, and when the log may not be read.
	XID *XID `json:"xid,omitempty"`
}

// An XID is an error that the driver wrote into the kernel's log, by its number
// in NVIDIA's catalogue.
type XID struct {
	Code int  `json:"code"`
	At   Time `json:"at"`
}

// ECC is the error correction of a GPU's memory, counted since the last reset
// (volatile) and over its life (aggregate).
type ECC struct {
	Mode                 string `json:"mode"` // enabled or disabled
	CorrectedVolatile    *int64 `json:"corrected_volatile"`
	UncorrectedVolatile  *int64 `json:"uncorrected_volatile"`
	CorrectedAggregate   *int64 `json:"corrected_aggregate"`
	UncorrectedAggregate *int64 `json:"uncorrected_aggregate"`
}

// Remapped is the row remapper of Ampere and later.
type Remapped struct {
	Correctable   *int  `json:"correctable"`
	Uncorrectable *int  `json:"uncorrectable"`
	Pending       *bool `json:"pending"`
	Failure       *bool `json:"failure"`
}

// Fabric is the place of a GPU among those that NVLink switches connect. State
// and Status are the driver's words; it is up when they are Completed and Success.
type Fabric struct {
	State       string `json:"state"`
	Status      string `json:"status"`
	CliqueID    *int   `json:"clique_id"`
	ClusterUUID string `json:"cluster_uuid"` // "" within one machine
}

// Maker is the vendor of the GPU.
func (g *GPU) Maker() Vendor { return cmp.Or(g.Vendor, NVIDIA) }

// Identity names the GPU over time: by UUID, or by its bus address where its vendor's indices change with the account
// that asks. It is "" for one that only its index names.
func (g *GPU) Identity() string {
	if g.UUID == "" && g.PCIBusID != "" && g.Maker() != NVIDIA {
		return strings.NewReplacer(":", "-", ".", "-").Replace(BusID(g.PCIBusID)) // which has a UUID's shape
	}
	return g.UUID
}

// A MIGDevice is one instance of a partitioned GPU: a MIG device of NVIDIA's, or a partition of AMD's, whose profile
// is its modes of computing and memory ("CPX NPS4").
type MIGDevice struct {
	Index             int    `json:"index"`
	GPUInstanceID     *int   `json:"gpu_instance_id"` // nil if it is not given
	ComputeInstanceID *int   `json:"compute_instance_id"`
	UUID              string `json:"uuid,omitempty"`
	Profile           string `json:"profile,omitempty"` // as nvidia-smi -L has it: 1g.10gb
	MemoryTotal       *int64 `json:"memory_total_mib"`
	MemoryUsed        *int64 `json:"memory_used_mib"`
}

// ProcessType is nvidia-smi's letter: what a process does with a GPU.
type ProcessType string

// The values of ProcessType.
const (
	Compute         ProcessType = "C"
	Graphics        ProcessType = "G"
	ComputeGraphics ProcessType = "C+G"
	UnknownType     ProcessType = "?"
)

// A Process is one process on one GPU. A process on two GPUs is two of these.
type Process struct {
	GPU     int         `json:"gpu"` // index of the GPU
	GPUUUID string      `json:"gpu_uuid,omitempty"`
	PID     int         `json:"pid"`
	Type    ProcessType `json:"type"`
	// User is the login name, whole; the uid in digits when it has no name; ""
	// when the process is gone or could not be looked up. [Process.Login] tells names from uids.
	User string `json:"user,omitempty"`
	UID  *int64 `json:"uid"`
	// Program is the base name of the program, or of the script that an
	// interpreter runs. Arguments are never collected.
	Program    string `json:"program,omitempty"`
	StartedAt  *Time  `json:"started_at"`
	UsedMemory *int64 `json:"used_memory_mib"`
	// Alive is false when ps does not know the pid, knows it as a zombie, or
	// knows under it a process that is younger than the reading; nil when ps
	// could not be asked.
	Alive     *bool  `json:"alive"`
	Container string `json:"container,omitempty"` // short id of the container it runs in
	// OwnUserNamespace is true in a container if its user namespace maps the uid alone, as a rootless one does:
	// only this account and root can start such a container.
	OwnUserNamespace bool `json:"own_user_namespace,omitempty"`
	// ContainerName is what its engine calls the container, and Pod its pod in Kubernetes: namespace/name, or the uid
	// where no more is known. Unit is the service of systemd, and Job the id of the Slurm job that it belongs to.
	ContainerName string `json:"container_name,omitempty"`
	Pod           string `json:"pod,omitempty"`
	Unit          string `json:"unit,omitempty"`
	Job           string `json:"job,omitempty"`
	// Claims are what the node knows besides the account about whose the process is: see [Process.Whose].
	Claims            []Claim `json:"claims,omitempty"`
	GPUInstanceID     *int    `json:"gpu_instance_id,omitempty"`
	ComputeInstanceID *int    `json:"compute_instance_id,omitempty"`
	// Children are the living processes whose parent or process group is a dead process.
	// They must end before the memory is free.
	Children []Child `json:"children,omitempty"`
}

// A Child is a living process left behind by a dead one.
type Child struct {
	PID     int    `json:"pid"`
	User    string `json:"user"`
	Program string `json:"program"`
}

// A Problem is one thing that could not be read, reached or believed. Code is
// stable and meant for programs ("smi:timeout"); Message is for people. The
// other fields say where, as far as that is known, and never come from a node.
type Problem struct {
	Code    string `json:"code"`
	Message string `json:"message"`
	Host    string `json:"host,omitempty"`
	GPU     *int   `json:"gpu,omitempty"`
	File    string `json:"file,omitempty"`
	Line    int    `json:"line,omitempty"`
	Col     int    `json:"col,omitempty"`
}

// Where renders the place of a problem: "comments.json:12:3", "gpu03 #2", "gpu03" or "".
func (p Problem) Where() string {
	switch {
	case p.File != "" && p.Line > 0:
		return fmt.Sprintf("%s:%d:%d", p.File, p.Line, p.Col)
	case p.File != "":
		return p.File
	case p.Host != "" && p.GPU != nil:
		return fmt.Sprintf("%s #%d", p.Host, *p.GPU)
	default:
		return p.Host
	}
}

// Time is a moment in UTC at a resolution of one millisecond, written as RFC 3339.
type Time struct{ time.Time }

// A Sample is the compact record of one host at one time, from which history is made. It
// has no constant values and no names of programs.
type Sample struct {
	Seq        uint64
	At         time.Time
	Load       *int   // of the host over a minute, in % of its cores: above 100 where processes wait for one
	MemoryUsed *int64 // of the host, MiB
	GPUs       []GPUSample
}

// A GPUSample is one GPU in a [Sample], or one of its MIG devices ([IsSlice]),
// which has its GPU's index, and of which no more than memory and users are known.
// UUID is the GPU's identity (see [GPU.Identity]), and "" where only its index names it.
type GPUSample struct {
	Index       int
	UUID        string
	Utilization *int     // %
	MemoryUsed  *int64   // MiB
	Temperature *int     // °C
	Power       *float64 // W
	// Users is who held memory, in order of their names. It is nil when the
	// processes could not be read, and empty when there were none.
	Users []UserMemory
}

// UserMemory is how much of a GPU's memory the compute processes of one user
// held, in MiB. User is "" for unknown users.
type UserMemory struct {
	User   string
	Memory int64
}

// A Bundle is the content of latest.json.gz: the newest full snapshot and the
// samples of the last [BundleWindow], oldest first, the snapshot's own last.
type Bundle struct {
	Host     string
	BootID   string
	Snapshot *Snapshot
	Samples  []Sample
}

// An Hour is the content of an hour file: all samples of one boot within one
// UTC hour, in order of Seq.
type Hour struct {
	Host    string
	BootID  string
	Start   time.Time
	Samples []Sample
}
