package snapshot

import "time"

// Limits of what a reader accepts from a node, whose files are untrusted.
const (
	MaxFileBytes    = 1 << 20 // a file in a drop, compressed
	MaxDecodedBytes = 4 << 20 // the same, decompressed
	MaxDepth        = 32      // nesting of JSON
	MinObjectBytes  = 32      // per object or null, on average over a file; those of a node have more than 100
	MaxObjects      = 1 << 15 // per file, or line of an hour file
	fewObjects      = 64      // in a file of any length
	MaxGPUs         = 64      // per host
	MaxTools        = 8       // per host
	MaxProcesses    = 4096    // per host
	MaxMIGDevices   = 16      // per GPU; NVIDIA's own limit is 7
	MaxChildren     = 16      // per dead process
	MaxClaims       = 8       // per process
	MaxDisks        = 32
	MaxDiskUsers    = 256
	MaxInterfaces   = 32
	MaxAddrs        = 16 // per interface
	MaxErrors       = 64
	MaxSamples      = 4096 // per file
	MaxDropEntries  = 512  // directory entries read per drop
	MaxTextBytes    = 512  // a message, a reason
	MaxNameBytes    = 128  // a user, a GPU's name, a path
	MaxProgramBytes = 64   // a program
)

// BundleWindow is how far back the samples in latest.json.gz reach.
const BundleWindow = 15 * time.Minute

// HourRetention is how long hour files are kept, on the node and on the web host.
const HourRetention = 48 * time.Hour
