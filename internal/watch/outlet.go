package watch

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"gpuboard/internal/config"
	"gpuboard/internal/failure"
	"gpuboard/internal/snapshot"
	"gpuboard/publisher"
	"gpuboard/publisher/site"
	"gpuboard/sitegen"
)

const (
	// bucketEvery is how often a site is copied to a bucket unless the configuration says it: each file costs money.
	bucketEvery = 5 * time.Minute
	// leastCopying is how long one copy may take at least.
	leastCopying = 5 * time.Minute
	manyFiles    = 1 << 20
)

// An outlet copies the site to where publish_to says. A copy begins at the end of a generation, and goes on beside the
// next ones.
type outlet struct {
	copier *site.Copier
	to     *publisher.Publisher
	wait   bool // for the copy in progress when the process ends
	copies sync.WaitGroup

	mu      sync.Mutex
	busy    bool
	unbegun error // why no copy could begin
}

// SSHConfig asks OpenSSH for its configuration of a host.
type SSHConfig func(ctx context.Context, host string) ([]byte, error)

// newOutlet returns the configured outlet, nil for none.
func newOutlet(cfg *config.Config, ask SSHConfig) (*outlet, error) {
	if cfg.String("publish_to") == "" {
		return nil, nil
	}
	target, err := publisher.ParseTarget(cfg.String("publish_to"))
	if err == nil && target.Scheme == "file" || strings.HasPrefix(cfg.String("publish_to"), "/") {
		return nil, failure.Usage("write the site there: --site DIR, or public_out: for a second one",
			"publish_to from %s: a site is copied to sftp:// or s3://", cfg.Origin("publish_to"))
	}
	if err != nil {
		return nil, err
	}
	every, state := publishEvery(cfg), cfg.String("state")
	to, err := publisher.New(publisher.Options{
		Target: target, Budget: max(every, leastCopying), Backlog: manyFiles,
		Identity: cfg.List("identity"), KnownHosts: cfg.List("known_hosts"), ResolveConfig: ask,
		StateDir: filepath.Join(state, "publish"), Properties: site.Properties,
	})
	if err != nil {
		return nil, err
	}
	dir, public := cfg.String("site"), cfg.String("public_out")
	if public != "" {
		dir = public
	}
	return &outlet{to: to, wait: cfg.Once, copier: site.New(site.Options{
		Dir: dir, Files: func() []string { return sitegen.FilesOf(state, public != "") },
		State: filepath.Join(state, "published.json"), Target: target.String(), Every: every,
		Seldom: target.Scheme == "s3",
	})}, nil
}

// publishEvery is how often the site is copied, 0 for never.
func publishEvery(cfg *config.Config) time.Duration {
	to, every := cfg.String("publish_to"), cfg.Duration("publish_every")
	switch {
	case to == "":
		return 0
	case every > 0:
		return every
	}
	if target, err := publisher.ParseTarget(to); err == nil && target.Scheme == "s3" {
		return bucketEvery
	}
	return cfg.Duration("interval")
}

// begin starts a copy if one is due and none is in progress.
func (o *outlet) begin(ctx context.Context, now time.Time) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.busy || !o.copier.Due(now) {
		return
	}
	if o.unbegun = o.copier.Begin(now); o.unbegun != nil {
		return
	}
	o.busy = true
	ctx = context.WithoutCancel(ctx) // of one generation
	o.copies.Go(func() {
		_, _ = o.copier.Copy(ctx, o.to) // Failed says it
		o.mu.Lock()
		defer o.mu.Unlock()
		o.busy = false
	})
}

// troubles is the problem with the last copy, if it failed.
func (o *outlet) troubles() []snapshot.Problem {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	why := o.copier.Failed()
	if o.unbegun != nil {
		why = o.unbegun.Error()
	}
	if why == "" {
		return nil
	}
	return []snapshot.Problem{snapshot.NewProblem("site:unpublished", "%s", why)}
}

// close ends the copy in progress, or waits for it where no other generation follows.
func (o *outlet) close() {
	if o == nil {
		return
	}
	if !o.wait {
		_ = o.to.Close() // always nil
	}
	o.copies.Wait()
}
