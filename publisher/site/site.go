// Package site copies a written site to where it is read: web space that is reached over SFTP, or a bucket of an object
// store. It decides what has to be sent and in what order; publisher sends it.
package site

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/objectstore"
	"gpuboard/publisher"
	"gpuboard/sitegen/render"
)

const (
	// wholeEvery is how often everything is sent, whatever is known of it: it puts right what others changed there.
	wholeEvery = 24 * time.Hour
	// hostsEvery is in how many copies the files of single hosts are sent once. They are most of a site, and few
	// people read them.
	hostsEvery = 4

	maxFileBytes  = 64 << 20
	maxStateBytes = 64 << 20
)

// Options say what to copy, and how often.
type Options struct {
	// Dir is the site, and Files lists what belongs to it.
	Dir   string
	Files func() []string
	// State is a file that remembers what has been sent.
	State string
	// Target and Every are where to and how often. Seldom means that hosts' own files are sent less often.
	Target string
	Every  time.Duration
	Seldom bool
}

// A Copier makes one copy after another. It is the [publisher.Source] of the copy in progress. Begin and the methods
// of a source are not called at the same time.
type Copier struct {
	o Options

	mu    sync.Mutex // guards known, which Due reads while a copy is in progress
	known known

	content map[string][]byte // of the files to be sent
	sums    map[string]string
	pending []string
	gone    []string
}

// known is what has been sent.
type known struct {
	Target string            `json:"target"`
	At     time.Time         `json:"at"`               // the last copy
	Hosts  time.Time         `json:"hosts_at"`         // the last copy of hosts' own files
	Whole  time.Time         `json:"whole_at"`         // the last copy of everything
	Files  map[string]string `json:"files"`            // digests by name; "" where an earlier copy was cut
	Failed string            `json:"failed,omitempty"` // why the last copy did not reach its end
}

// New reads what is known. If that cannot be read, everything is sent.
func New(o Options) *Copier {
	c := &Copier{o: o}
	data, err := atomicfile.Read(o.State, maxStateBytes)
	if err != nil || json.Unmarshal(data, &c.known) != nil || c.known.Target != o.Target {
		c.known = known{Target: o.Target}
	}
	if c.known.Files == nil {
		c.known.Files = map[string]string{}
	}
	return c
}

// Due reports whether it is time for another copy.
func (c *Copier) Due(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return elapsed(now, c.known.At, c.o.Every)
}

// Failed says why the last copy did not reach its end, "" if it did.
func (c *Copier) Failed() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.known.Failed
}

// elapsed reports whether a time has passed since then, or the clock was set back.
func elapsed(now, then time.Time, d time.Duration) bool {
	age := now.Sub(then)
	return age < 0 || age >= d
}

// Begin reads what is to be sent, so that the site may change while it is. Copying ends with End.
func (c *Copier) Begin(now time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	whole := elapsed(now, c.known.Whole, wholeEvery)
	hosts := whole || !c.o.Seldom || elapsed(now, c.known.Hosts, hostsEvery*c.o.Every)
	c.content, c.sums, c.pending, c.gone = map[string][]byte{}, map[string]string{}, nil, nil
	there := map[string]bool{}
	for _, name := range c.o.Files() {
		if strings.HasSuffix(name, ".gz") { // for web servers that read this disk
			continue
		}
		there[name] = true
		before, sent := c.known.Files[name]
		if sent && before != "" && !hosts && ofHost(name) {
			continue
		}
		data, err := atomicfile.Read(filepath.Join(c.o.Dir, filepath.FromSlash(name)), maxFileBytes)
		if errors.Is(err, fs.ErrNotExist) {
			continue // somebody removed it; the next generation writes it again
		}
		if err != nil {
			return fmt.Errorf("reading the site: %w", err)
		}
		digest := sha256.Sum256(data)
		if sum := hex.EncodeToString(digest[:12]); whole || sum != before {
			c.content[name], c.sums[name] = data, sum
			c.pending = append(c.pending, name)
		}
	}
	slices.SortFunc(c.pending, func(a, b string) int {
		return cmp.Or(render.Rank(a)-render.Rank(b), strings.Compare(a, b))
	})
	for name := range c.known.Files {
		if !there[name] {
			c.gone = append(c.gone, name)
		}
	}
	slices.Sort(c.gone)
	for _, name := range c.pending { // if this copy is cut, nobody knows which of them are there
		c.known.Files[name] = ""
	}
	c.known.At = now
	if hosts {
		c.known.Hosts = now
	}
	if whole {
		c.known.Whole = now
	}
	return c.save()
}

// ofHost reports whether a file is about one host alone.
func ofHost(name string) bool {
	_, of, _ := strings.Cut("/"+name, "/hosts/")
	return of != ""
}

// save writes down what is known.
func (c *Copier) save() error {
	data, err := json.Marshal(&c.known)
	if err == nil {
		_, err = atomicfile.Write(c.o.State, data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("remembering what was copied: %w", err)
	}
	return nil
}

// Copy sends what Begin has read, and removes what the site no longer has once all of it has been sent.
func (c *Copier) Copy(ctx context.Context, to *publisher.Publisher) (publisher.Report, error) {
	report, err := to.Publish(ctx, c)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.content, c.known.Failed = nil, ""
	if err != nil {
		c.known.Failed = err.Error()
	}
	return report, errors.Join(err, c.save())
}

// Pending lists the files that are left to send: what pages need before the pages, the front page last.
func (c *Copier) Pending(string) ([]string, error) { return slices.Clone(c.pending), nil }

// Read returns the content of a file as it was when the copy began.
func (c *Copier) Read(name string) ([]byte, error) { return c.content[name], nil }

// Delivered notes that a file is there.
func (c *Copier) Delivered(_, name string, _ []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known.Files[name] = c.sums[name]
	delete(c.content, name)
	return nil
}

// Obsolete lists the files that the site no longer has.
func (c *Copier) Obsolete(string) []string { return c.gone }

// Withdrawn notes that files are gone.
func (c *Copier) Withdrawn(_ string, names ...string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	maps.DeleteFunc(c.known.Files, func(name, _ string) bool { return slices.Contains(names, name) })
	return nil
}

// Properties is what a store is to tell of a file of the site. Pages are stored compressed, as browsers take them;
// texts and JSON are plain, because curl does not unpack them unless told to.
func Properties(name string) objectstore.Properties {
	p := objectstore.Properties{Type: render.ContentType(name), CacheControl: "no-cache"}
	if strings.HasPrefix(name, "assets/") { // named after their content
		p.CacheControl = "public, max-age=31536000, immutable"
	}
	if slices.Contains([]string{".html", ".css", ".js", ".svg"}, path.Ext(name)) {
		p.Encoding = "gzip"
	}
	return p
}
