package publisher

import (
	"encoding/binary"
	"io"
	"sync"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"
)

// openSFTP is sftp.NewClient with a pairing on the way out.
func openSFTP(conn *ssh.Client) (*sftp.Client, *pairing, error) {
	session, err := conn.NewSession()
	if err != nil {
		return nil, nil, err
	}
	in, err := session.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := session.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	complaints, err := session.StderrPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := session.RequestSubsystem("sftp"); err != nil {
		return nil, nil, err
	}
	go func() { _, _ = io.Copy(io.Discard, complaints) }() // until the channel ends
	p := &pairing{WriteCloser: in, whole: make(chan struct{}, 2)}
	client, err := sftp.NewClientPipe(out, p)
	return client, p, err
}

// pairing can hold two requests back until both are there, and sends them as one
// piece. That is one packet of SSH, which the server passes on when all of it has
// come and its checksum is right: so both requests are heard or none, and between
// them lies no more than the server's step from one to the next.
type pairing struct {
	io.WriteCloser
	mu    sync.Mutex
	hold  bool
	held  []byte
	count int           // of whole requests held
	whole chan struct{} // an element for each of them
}

func (p *pairing) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.hold {
		return p.WriteCloser.Write(b)
	}
	p.held = append(p.held, b...)
	for n := requests(p.held); p.count < min(n, cap(p.whole)); p.count++ {
		p.whole <- struct{}{}
	}
	return len(b), nil
}

// requests counts the whole packets of SFTP, each of which begins with its
// length (draft-ietf-secsh-filexfer-02, 3).
func requests(b []byte) (n int) {
	for len(b) >= 4 {
		size := int(binary.BigEndian.Uint32(b))
		if len(b)-4 < size {
			break
		}
		b = b[4+size:]
		n++
	}
	return n
}

// pair makes two requests, the second right behind the first, and returns what
// came of each. Nobody else may make one meanwhile.
func (p *pairing) pair(first, second func() error) (one, two error) {
	p.mu.Lock()
	p.hold, p.held, p.count = true, nil, 0
	p.mu.Unlock()
	answers := make(chan error, 1)
	go func() { answers <- first() }()
	select {
	case <-p.whole:
	case one = <-answers: // the connection is gone: it was not even sent
		_ = p.release()
		return one, one
	}
	last := make(chan error, 1)
	go func() { last <- second() }()
	early := false
	select {
	case <-p.whole:
	case two = <-last:
		early = true
	}
	if err := p.release(); err != nil {
		// Nobody answers what was not sent, and the connection is of no more use.
		p.Close()
	}
	one = <-answers
	if !early {
		two = <-last
	}
	return one, two
}

// release sends what is held.
func (p *pairing) release() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.hold = false
	for len(p.whole) > 0 {
		<-p.whole
	}
	if len(p.held) == 0 {
		return nil
	}
	_, err := p.WriteCloser.Write(p.held)
	p.held = nil
	return err
}
