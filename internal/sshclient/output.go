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
	out, err := Await(ctx, func() ([]byte, error) { return c.output(command, most) })
	if err != nil {
		c.Close() // or a program that writes on would block
	}
	return out, err
}

// Await does something on a connection, and gives up when ctx ends. A deadline of the connection is not enough: if the
// server ends the connection just after the login, golang.org/x/crypto/ssh may register a new channel after it has
// closed all others, and then nothing ends the wait for it.
func Await[T any](ctx context.Context, do func() (T, error)) (value T, err error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		v, err := do()
		done <- outcome{v, err}
	}()
	select {
	case o := <-done:
		return o.value, o.err
	case <-ctx.Done():
		return value, ctx.Err()
	}
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
