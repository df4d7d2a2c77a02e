//go:build world

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"time"

	"tempomat/internal/testkit"
)

// visitor is a client of the garden. It sends raw bytes and reads answers.
type visitor struct {
	address  string
	patience time.Duration // until an answer begins
	conn     net.Conn      // nil: none is open
	in       *bufio.Reader
	opened   int // number of connections so far
}

// visited is an answer.
type visited struct {
	status int
	id     string // id of the answered request; empty: the answer isn't the backend's
	body   string
	closes bool // whether the connection closes, according to the answer
	hints  int  // number of 100s and other interim answers
}

func (v *visitor) open() error {
	if v.conn != nil {
		return nil
	}
	c, err := net.DialTimeout("tcp", v.address, testkit.Patience)
	if err != nil {
		return err
	}
	v.opened++
	v.conn, v.in = c, bufio.NewReader(c)
	return nil
}

func (v *visitor) close() {
	if v.conn != nil {
		_ = v.conn.Close()
		v.conn = nil
	}
}

// say writes a text without waiting for an answer. It doesn't report that the other side has closed the connection,
// because a later read shows this.
func (v *visitor) say(text string) error {
	if err := v.open(); err != nil {
		return err
	}
	_ = v.conn.SetDeadline(time.Now().Add(testkit.Patience))
	_, err := io.WriteString(v.conn, text)
	if isReset(err) {
		return nil
	}
	return err
}

func isTimeout(err error) bool { return errors.Is(err, os.ErrDeadlineExceeded) }

func isReset(err error) bool {
	return errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
}

// begins waits for the beginning of an answer. Reading shows the end of the connection.
func (v *visitor) begins() error {
	_ = v.conn.SetReadDeadline(time.Now().Add(v.patience))
	defer func() { _ = v.conn.SetReadDeadline(time.Now().Add(testkit.Patience)) }()
	if _, err := v.in.Peek(1); isTimeout(err) {
		return fmt.Errorf("no answer: %w", err)
	}
	return nil
}

// read reads an answer. If the client waits for a 100, goOn sends the rest. After a timeout, read may be
// called again.
func (v *visitor) read(method string, goOn func() error) (a visited, err error) {
	for {
		if err := v.begins(); err != nil {
			return a, err
		}
		res, err := http.ReadResponse(v.in, &http.Request{Method: method})
		if err != nil {
			return a, fmt.Errorf("no answer: %w", err)
		}
		if res.StatusCode < 200 {
			a.hints++
			if res.StatusCode == http.StatusContinue && goOn != nil {
				if err := goOn(); err != nil {
					return a, err
				}
				goOn = nil
			}
			continue
		}
		b, err := io.ReadAll(res.Body)
		if err != nil {
			return a, fmt.Errorf("a body that ends early after %q: %w", clip(string(b)), err)
		}
		return visited{res.StatusCode, res.Header.Get("X-Id"), string(b), res.Close, a.hints}, nil
	}
}

// ends waits for the end of the connection. No more bytes may come before it.
func (v *visitor) ends() error {
	defer v.close()
	rest, err := io.ReadAll(v.in)
	if err != nil && !isReset(err) {
		return fmt.Errorf("the connection stays open: %w", err)
	}
	if len(rest) > 0 {
		return fmt.Errorf("after the last answer comes %q", clip(string(rest)))
	}
	return nil
}

func clip(s string) string { return strings.TrimSpace(s[:min(len(s), 120)]) }
