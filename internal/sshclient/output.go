package sshclient

import (
	"context"
	"errors"
	"fmt"
	"io"

	"golang.org/x/crypto/ssh"
)

// ErrTooMuch is the error of an output that is longer than it may be.
var ErrTooMuch = errors.New("it prints too much")

// Output runs a command on the server and returns what it has written, whatever its exit status was. After an error,
// also that of ctx, the connection is closed.
func (c *Conn) Output(ctx context.Context, command string, most int64) ([]byte, error) {
	type result struct {
		out []byte
		err error
	}
	done := make(chan result, 1)
	// The library may wait for a session for ever, if the server ends the connection while it is opened.
	go func() {
		out, err := c.output(command, most)
		done <- result{out, err}
	}()
	r := result{}
	select {
	case r = <-done:
	case <-ctx.Done():
		r.err = ctx.Err()
	}
	if r.err != nil {
		c.Close() // or a program that writes on would block
	}
	return r.out, r.err
}

func (c *Conn) output(command string, most int64) ([]byte, error) {
	session, err := c.Client().NewSession()
	if err != nil {
		return nil, err
	}
	defer session.Close()
	pipe, err := session.StdoutPipe()
	if err == nil {
		err = session.Start(command)
	}
	if err != nil {
		return nil, err
	}
	out, err := io.ReadAll(io.LimitReader(pipe, most+1))
	if int64(len(out)) > most {
		return nil, fmt.Errorf("%w: more than %d bytes", ErrTooMuch, most)
	}
	if err == nil {
		err = session.Wait()
	}
	if _, ended := errors.AsType[*ssh.ExitError](err); ended {
		err = nil
	}
	return out, err
}
