package serve

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"golang.org/x/crypto/bcrypt"

	"gpuboard/internal/atomicfile"
)

// What is read of a password file.
const (
	maxPasswordFile = 1 << 20
	maxUserBytes    = 128
	maxCost         = 15 // of bcrypt: more takes seconds for each login
)

// passwords is a file of htpasswd, with bcrypt alone: the other kinds are guessed in hours.
// It is read for each login.
type passwords struct {
	path string
	log  *slog.Logger
	// bcrypt takes long, and strangers ask for it.
	queue   *queue
	compare func(hash, password []byte) error

	mu      sync.Mutex
	trouble string // with the file, as it was logged last
	// seen has the passwords that were right for a hash, because a browser sends one with every request.
	seen map[[32]byte]bool
}

const maxSeen = 1000

// openPasswords reads a password file. A line that cannot be used is an error.
func openPasswords(path string, log *slog.Logger) (*passwords, error) {
	p := &passwords{path: path, log: log, queue: newQueue(), compare: bcrypt.CompareHashAndPassword,
		seen: map[[32]byte]bool{}}
	hashes, err := p.read()
	if err != nil {
		return nil, err
	}
	if len(hashes) == 0 {
		return nil, fmt.Errorf("reading %s: it names nobody", path)
	}
	return p, nil
}

// read reads the file. The error may be about some lines; the others count.
func (p *passwords) read() (map[string]string, error) {
	data, err := atomicfile.Read(p.path, maxPasswordFile)
	if err != nil {
		return nil, fmt.Errorf("opening the passwords: %w", err)
	}
	return parsePasswords(p.path, data)
}

// parsePasswords reads the lines NAME:HASH, and says by line what is wrong.
func parsePasswords(path string, data []byte) (map[string]string, error) {
	hashes := map[string]string{}
	var wrong []error
	n := 0
	for line := range bytes.Lines(data) {
		n++
		text := strings.TrimRight(string(line), "\r\n")
		if strings.TrimSpace(text) == "" || strings.HasPrefix(text, "#") {
			continue
		}
		say := func(format string, args ...any) {
			wrong = append(wrong, fmt.Errorf("%s:%d: "+format, append([]any{path, n}, args...)...))
		}
		name, hash, ok := strings.Cut(text, ":")
		hash, _, _ = strings.Cut(hash, ":")
		hash = strings.TrimSpace(hash)
		if !ok || !goodName(name) {
			say("this is no NAME:HASH")
			continue
		}
		if _, twice := hashes[name]; twice {
			say("%s stands here a second time", name)
			continue
		}
		cost, err := bcrypt.Cost([]byte(hash))
		switch {
		case err != nil || len(hash) != 60 || !strings.HasPrefix(hash, "$2"):
			say("the password of %s is not kept as bcrypt, the only kind that is safe: make it again with htpasswd -B",
				name)
		case cost > maxCost:
			say(
				"the password of %s has the cost %d, and every login would take seconds: make it again with htpasswd -B -C 10", name, cost)
		default:
			hashes[name] = hash
		}
	}
	return hashes, errors.Join(wrong...)
}

// A candidate is what a login is compared with.
type candidate struct {
	hash string
	real bool // it is that of the name, and not there to take time alone
	mark [32]byte
}

// find returns the hash for a name, and whether this password was right for it before.
func (p *passwords) find(name, password string) (c candidate, before bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	hashes, err := p.read()
	if err != nil && err.Error() != p.trouble {
		p.log.Error("reading the passwords again", "error", err)
	}
	p.trouble = fmt.Sprint(err)
	if c.hash, c.real = hashes[name]; !c.real {
		for _, c.hash = range hashes { // any, so that time does not tell that the name is unknown
			break
		}
	}
	c.mark = sha256.Sum256([]byte(name + "\x00" + c.hash + "\x00" + password))
	return c, c.real && p.seen[c.mark]
}

// matches compares a password. It returns an error if ctx ends before that begins.
func (p *passwords) matches(ctx context.Context, c candidate, password, address string) (bool, error) {
	leave, err := p.queue.enter(ctx, address)
	if err != nil {
		return false, err
	}
	err = p.compare([]byte(c.hash), []byte(password))
	leave()
	if err != nil || !c.real {
		return false, nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.seen) >= maxSeen {
		clear(p.seen)
	}
	p.seen[c.mark] = true
	return true, nil
}

// goodName reports whether a login name is one line without blanks at its ends.
func goodName(name string) bool {
	return name != "" && len(name) <= maxUserBytes && strings.TrimSpace(name) == name &&
		strings.ToValidUTF8(name, "") == name &&
		!strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 })
}
