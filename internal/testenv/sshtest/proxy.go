package sshtest

import (
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Proxy is a TCP line to a server that can be made slow, cut or silent.
type Proxy struct {
	Addr string
	Host string
	Port int

	target   string
	listener net.Listener
	ends     sync.WaitGroup
	quit     chan struct{}

	mu       sync.Mutex
	conns    map[net.Conn]bool
	hole     chan struct{} // closed when the line goes silent
	delay    time.Duration
	cutAfter int64 // bytes from the client; negative: never
	trickle  time.Duration

	up, down, turns atomic.Int64
	direction       atomic.Int32 // who spoke last: 1 the client, 2 the server
}

// NewProxy listens on a port of its own and passes everything on to target.
func NewProxy(t testing.TB, target string) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	p := &Proxy{Addr: l.Addr().String(), Host: "127.0.0.1", Port: l.Addr().(*net.TCPAddr).Port, target: target,
		listener: l, quit: make(chan struct{}), conns: map[net.Conn]bool{}, hole: make(chan struct{}), cutAfter: -1}
	p.ends.Add(1)
	go p.accept()
	t.Cleanup(p.Close)
	return p
}

// SetDelay holds each piece back for d, in each direction.
func (p *Proxy) SetDelay(d time.Duration) { p.mu.Lock(); p.delay = d; p.mu.Unlock() }

// SetTrickle passes one byte in each d from the client.
func (p *Proxy) SetTrickle(d time.Duration) { p.mu.Lock(); p.trickle = d; p.mu.Unlock() }

// CutAfter resets each line once n more bytes went to the server; negative: never.
func (p *Proxy) CutAfter(n int64) {
	p.mu.Lock()
	p.cutAfter = n
	p.mu.Unlock()
	p.up.Store(0)
}

// BlackHole swallows everything from now on, without closing anything.
func (p *Proxy) BlackHole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case <-p.hole:
	default:
		close(p.hole)
	}
}

// Heal ends a black hole for lines made from now on.
func (p *Proxy) Heal() { p.mu.Lock(); p.hole = make(chan struct{}); p.mu.Unlock() }

// Counted are the bytes to and from the server and how often the client had to
// wait for an answer: the round trips.
func (p *Proxy) Counted() (up, down, turns int64) { return p.up.Load(), p.down.Load(), p.turns.Load() }

// Reset begins counting anew.
func (p *Proxy) Reset() { p.up.Store(0); p.down.Store(0); p.turns.Store(0); p.direction.Store(0) }

// Close ends the proxy and every line.
func (p *Proxy) Close() {
	p.mu.Lock()
	select {
	case <-p.quit:
	default:
		close(p.quit)
	}
	p.listener.Close()
	for conn := range p.conns {
		conn.Close()
	}
	p.mu.Unlock()
	p.ends.Wait()
}

func (p *Proxy) accept() {
	defer p.ends.Done()
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = true, true
		hole := p.hole
		p.mu.Unlock()
		p.ends.Add(2)
		go p.pass(client, server, hole, true)
		go p.pass(server, client, hole, false)
	}
}

func (p *Proxy) pass(from, to net.Conn, hole chan struct{}, fromClient bool) {
	defer p.ends.Done()
	defer from.Close()
	defer to.Close()
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if n > 0 && !p.forward(to, buffer[:n], hole, fromClient) {
			return
		}
		if err != nil {
			select {
			case <-hole: // the end of one side does not reach the other either
				<-p.quit
			default:
			}
			return
		}
	}
}

func (p *Proxy) forward(to net.Conn, piece []byte, hole chan struct{}, fromClient bool) bool {
	p.mu.Lock()
	delay, cutAfter, trickle := p.delay, p.cutAfter, p.trickle
	p.mu.Unlock()
	select {
	case <-hole:
		return true
	default:
	}
	if delay > 0 && !p.wait(delay) {
		return false
	}
	if !fromClient {
		if p.direction.Swap(2) == 1 {
			p.turns.Add(1)
		}
		p.down.Add(int64(len(piece)))
		_, err := to.Write(piece)
		return err == nil
	}
	p.direction.Store(1)
	sent := p.up.Add(int64(len(piece)))
	if cutAfter >= 0 && sent > cutAfter {
		piece = piece[:max(0, int64(len(piece))-(sent-cutAfter))]
		to.Write(piece)
		return false
	}
	for trickle > 0 && len(piece) > 0 {
		if _, err := to.Write(piece[:1]); err != nil || !p.wait(trickle) {
			return false
		}
		piece = piece[1:]
	}
	_, err := to.Write(piece)
	return err == nil
}

func (p *Proxy) wait(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-p.quit:
		return false
	}
}
