package inventory

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/consul/api"

	"gpuboard/internal/atomicfile"
	"gpuboard/internal/snapshot"
)

// Defaults and limits of queries to Consul.
const (
	DefaultService = "gpuboard"
	DefaultTimeout = 5 * time.Second
	MaxHosts       = 5000 // per source
	MaxTags        = 64   // per host
	MaxDatacenters = 64

	maxAnswerBytes = 32 << 20
	minValueBytes  = 3           // of any kind; encoding/json goes on behind those of the wrong type
	fewValues      = 64          // in an answer of any length
	maxLastContact = time.Minute // an answer from a server that has not heard of its leader for longer is reported
	allDatacenters = "*"
)

// ConsulOptions says which Consul to query, and for what. TLS, a token file and what
// else is needed to connect are in Consul's own environment variables
// (CONSUL_HTTP_ADDR, CONSUL_HTTP_TOKEN_FILE, CONSUL_CACERT and so on).
type ConsulOptions struct {
	// Address and Token replace those of the environment: for tests.
	Address, Token string

	Service  string            // DefaultService when empty
	Tags     []string          // only hosts that carry all of these
	Filter   string            // Consul's filter expression
	NodeMeta map[string]string // only nodes that carry all of these
	// Datacenters to query: none for the agent's own, "*" for all that it knows.
	// When two name the same host, the first one counts. Of several, each is a group of hosts.
	Datacenters []string
	// Timeout bounds one query of all datacenters together; DefaultTimeout when 0.
	Timeout time.Duration
}

// Consul queries a Consul agent for the hosts that exist. It is safe for use by
// several goroutines.
type Consul struct {
	opts ConsulOptions
}

// NewConsul checks the options and does not connect. A token or TLS file that cannot
// be read is no error here, because it may appear later; until then queries fail.
func NewConsul(o ConsulOptions) (*Consul, error) {
	o.Service = cmp.Or(o.Service, DefaultService)
	o.Timeout = cmp.Or(max(o.Timeout, 0), DefaultTimeout)
	if o.Service == "." || o.Service == ".." || strings.ContainsAny(o.Service, "/?#%\\") ||
		snapshot.Text(o.Service, 128) != o.Service {
		return nil, fmt.Errorf("reading the Consul options: %q is not a name for a service", o.Service)
	}
	if len(o.Datacenters) > MaxDatacenters {
		return nil, fmt.Errorf("reading the Consul options: %d datacenters, and %d is the most",
			len(o.Datacenters), MaxDatacenters)
	}
	c := &Consul{opts: o}
	var missing *fileError
	if _, _, err := c.client(); err != nil && !errors.As(err, &missing) {
		return nil, err
	}
	return c, nil
}

// An Answer is the answer of one source.
type Answer struct {
	Hosts    []Host // by name
	Problems []snapshot.Problem
	// Missing maps datacenters that did not answer to the reason, when others did.
	Missing map[string]string
}

// Query queries once, within the timeout of the options. An error means that there
// was no answer, or none that could be parsed. Consul also answers with no hosts when
// the token may not read the service.
func (c *Consul) Query(ctx context.Context) (Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, c.opts.Timeout)
	defer cancel()
	client, hide, err := c.client()
	if err != nil {
		return Answer{}, err
	}
	names, err := c.datacenters(ctx, client)
	if err != nil {
		return Answer{}, hide.wrap("asking Consul for its datacenters", err)
	}
	replies := make([]reply, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { replies[i] = c.service(ctx, client, name) })
	}
	wg.Wait()

	a := Answer{Missing: map[string]string{}}
	var first error
	for _, r := range replies {
		if r.err != nil {
			err := hide.wrap("asking Consul"+r.about(), r.err)
			a.Missing[r.datacenter] = err.Error()
			first = cmp.Or(first, err)
			continue
		}
		a.Problems = append(a.Problems, r.problems()...)
	}
	if len(a.Missing) == len(replies) {
		return Answer{}, first
	}
	hosts, problems := hostsOf(replies)
	a.Hosts, a.Problems = hosts, append(a.Problems, problems...)
	return a, nil
}

// A reply is the answer of one datacenter.
type reply struct {
	datacenter string // "" for the agent's own
	entries    []*api.ServiceEntry
	meta       *api.QueryMeta
	err        error
}

// about names the datacenter in a message.
func (r reply) about() string {
	if r.datacenter == "" {
		return ""
	}
	return " about datacenter " + snapshot.Text(r.datacenter, 64)
}

func (r reply) problems() []snapshot.Problem {
	var out []snapshot.Problem
	if r.meta.LastContact > maxLastContact {
		out = append(out, problem("discovery:stale-read", "",
			"Consul's answer%s is old: the server that gave it last heard of its leader %s ago", r.about(),
			r.meta.LastContact.Round(time.Second)))
	}
	if r.meta.ResultsFilteredByACLs {
		out = append(out, problem("discovery:filtered", "",
			"Consul left hosts out of its answer%s, because the token may not read them", r.about()))
	}
	return out
}

var errNotConsul = errors.New("this is not an answer of Consul")

// service queries one datacenter for the entries of the service.
func (c *Consul) service(ctx context.Context, client *api.Client, datacenter string) reply {
	q := &api.QueryOptions{
		Datacenter: datacenter,
		AllowStale: true, // answers come even while the servers have no leader
		Filter:     c.opts.Filter,
		NodeMeta:   c.opts.NodeMeta,
	}
	// passingOnly would hide the failing hosts, which people look for.
	r := reply{datacenter: datacenter}
	r.entries, r.meta, r.err = client.Health().ServiceMultipleTags(c.opts.Service, c.opts.Tags, false,
		q.WithContext(ctx))
	if r.err == nil {
		r.entries, r.err = wholeEntries(r.entries)
	}
	return r
}

// wholeEntries leaves out entries without a node or a service. Consul writes [] for no
// entries; null, and a list without a single whole entry, did not come from Consul.
func wholeEntries(entries []*api.ServiceEntry) ([]*api.ServiceEntry, error) {
	whole := slices.DeleteFunc(slices.Clone(entries), func(e *api.ServiceEntry) bool {
		return e == nil || e.Node == nil || e.Service == nil
	})
	if entries == nil || len(entries) > 0 && len(whole) == 0 {
		return nil, errNotConsul
	}
	return whole, nil
}

// datacenters returns the names to query, "" for the agent's own.
func (c *Consul) datacenters(ctx context.Context, client *api.Client) ([]string, error) {
	if len(c.opts.Datacenters) == 0 {
		return []string{""}, nil
	}
	if !slices.Contains(c.opts.Datacenters, allDatacenters) {
		var names []string
		for _, name := range c.opts.Datacenters {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		return names, nil
	}
	var names []string
	// Catalog().Datacenters() takes no context and could block forever.
	if _, err := client.Raw().Query("/v1/catalog/datacenters", &names,
		(&api.QueryOptions{}).WithContext(ctx)); err != nil {
		return nil, err
	}
	if len(names) == 0 || len(names) > MaxDatacenters {
		return nil, errNotConsul
	}
	slices.Sort(names) // Consul sorts them by distance, which changes
	return slices.Compact(names), nil
}

// client makes a client. Every query uses a new one, so that it reads the token file again.
func (c *Consul) client() (*api.Client, hider, error) {
	cfg := api.DefaultNonPooledConfig()
	cfg.Address = cmp.Or(c.opts.Address, cfg.Address)
	if c.opts.Token != "" {
		cfg.Token, cfg.TokenFile = c.opts.Token, ""
	}
	if (cfg.TLSConfig.CertFile == "") != (cfg.TLSConfig.KeyFile == "") {
		return nil, hider{}, errors.New("reading the Consul options: a client certificate and its key belong together")
	}
	token, err := readFiles(cfg)
	if err != nil {
		return nil, hider{}, err
	}
	if path, ok := strings.CutPrefix(cfg.Address, "unix://"); ok {
		// For a socket the library would make a client of its own, without our limits.
		cfg.Transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		cfg.Address = "localhost"
	}
	httpClient, err := api.NewHttpClient(cfg.Transport, cfg.TLSConfig)
	if err != nil {
		return nil, hider{}, &fileError{fmt.Errorf("reading the TLS files for Consul: %w", err),
			cfg.TLSConfig.CAFile + " " + cfg.TLSConfig.CertFile + " " + cfg.TLSConfig.KeyFile}
	}
	httpClient.Transport = bounded{cfg.Transport}
	// Redirects are not followed, because Go would send the header with the token along.
	// Consul's API never redirects.
	httpClient.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cfg.HttpClient = httpClient
	client, err := api.NewClient(cfg)
	hide := hider{cfg.Token, token}
	if cfg.HttpAuth != nil {
		hide = append(hide, cfg.HttpAuth.Password)
	}
	if err != nil {
		return nil, hide, hide.wrap("reading the Consul options", err)
	}
	return client, hide, nil
}

// maxTokenFile bounds a file that holds a token.
const maxTokenFile = 4 << 10

// readFiles checks that the files of a client can be read, and returns the token. The
// library would block on a FIFO, and treat an empty file as no token.
func readFiles(cfg *api.Config) (token string, err error) {
	for _, name := range []string{cfg.TLSConfig.CAFile, cfg.TLSConfig.CertFile, cfg.TLSConfig.KeyFile} {
		if name == "" {
			continue
		}
		f, _, err := atomicfile.Open(name)
		if err != nil {
			return "", &fileError{fmt.Errorf("reading the TLS files for Consul: %w", err), name}
		}
		f.Close()
	}
	if cfg.TokenFile == "" {
		return "", nil
	}
	data, err := atomicfile.Read(cfg.TokenFile, maxTokenFile)
	token = strings.TrimSpace(string(data))
	if err == nil && token == "" {
		err = fmt.Errorf("%s is empty", cfg.TokenFile)
	}
	if err != nil {
		return "", &fileError{fmt.Errorf("reading the token for Consul: %w", err), cfg.TokenFile}
	}
	return token, nil
}

// hider removes secrets from error texts, even if a server sends them back.
type hider []string

func (h hider) wrap(what string, err error) error {
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		err = fmt.Errorf("the answer is longer than %d MiB: %w", maxAnswerBytes>>20, err)
	}
	text := err.Error()
	for _, secret := range h {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "(hidden)")
		}
	}
	text = strings.Join(strings.Fields(text), " ")
	return &consulError{text: what + ": " + snapshot.Text(text, 240), err: err}
}

// A consulError is one line that is safe to print, around an error that may not be.
type consulError struct {
	text string
	err  error
}

func (e *consulError) Error() string { return e.text }
func (e *consulError) Unwrap() error { return e.err }

// bounded is a transport that limits the size of answers, and what decoding them costs.
type bounded struct{ next http.RoundTripper }

func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(http.MaxBytesReader(nil, resp.Body, maxAnswerBytes))
	if err == nil {
		err = tooCostly(data)
	}
	if err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(data))
	return resp, nil
}

// tooCostly refuses an answer that could cost far more memory than its length.
func tooCostly(data []byte) error {
	// An object of Consul has more than 90 bytes on average, and an entry some 15 objects.
	bounds := snapshot.Bounds{Few: 64, EachBytes: 64, Most: 40 * MaxHosts}
	if err := bounds.Check(data); err != nil {
		return err
	}
	if bytes.Count(data, []byte{','}) > fewValues+len(data)/minValueBytes {
		return errors.New("the answer has too many values")
	}
	return nil
}
