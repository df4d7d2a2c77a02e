package config

import (
	"errors"
	"path/filepath"
	"strings"
	"time"
	"unicode"
)

// Gossip is how accounts are shared among sidecars with no server at all.
type Gossip struct {
	Listen         string        // address for both UDP and TCP
	Advertise      string        // at which peers reach it; empty: Listen
	Name           string        // tells the sidecar from the others; empty: the host's name and the port
	Join           []string      // peers, host:port; a host may be a DNS name of several addresses
	JoinFile       string        // a file with more of them, one in each line; empty: none
	KeyFile        string        // a file with the keys of the encryption; empty: nothing is encrypted
	Epoch          time.Duration // how often totals are told
	History        int           // for how many epochs they are kept and count
	MaxSkew        time.Duration // how far a peer's clock may be off for its figures to count
	BytesPerSecond int           // that are sent, at most
}

func defaultGossip() Gossip {
	return Gossip{Listen: ":7946", Epoch: 100 * time.Millisecond, History: 64, MaxSkew: 2 * time.Second, BytesPerSecond: 1 << 20}
}

func gossipSettings(g *Gossip) []setting {
	return []setting{
		{path: "coordination.gossip.listen", value: peerAddress(&g.Listen, false), restart: true},
		{path: "coordination.gossip.advertise", value: peerAddress(&g.Advertise, true), restart: true},
		{path: "coordination.gossip.name", value: peerName(&g.Name), restart: true},
		{path: "coordination.gossip.join", value: peerAddresses(&g.Join), restart: true},
		{path: "coordination.gossip.joinFile", value: absoluteFile(&g.JoinFile), restart: true},
		{path: "coordination.gossip.keyFile", value: absoluteFile(&g.KeyFile), restart: true},
		{path: "coordination.gossip.epoch", value: duration(&g.Epoch, 10*time.Millisecond, time.Second), restart: true},
		{path: "coordination.gossip.history", value: integer(&g.History, 2, 256), restart: true},
		{path: "coordination.gossip.maxSkew", value: duration(&g.MaxSkew, time.Millisecond, time.Minute), restart: true},
		{path: "coordination.gossip.bytesPerSecond", value: integer(&g.BytesPerSecond, 4096, 1<<30), restart: true},
	}
}

// validateGossip checks that there is somebody to find.
func (r *reader) validateGossip(g *Gossip) {
	if len(g.Join) == 0 && g.JoinFile == "" && !r.faulty("coordination.gossip.join") {
		r.fault(r.given["coordination.kind"], "gossip", "needs coordination.gossip.join, such as [10.0.0.1:7946, 10.0.0.2:7946], or joinFile")
	}
}

const peerForm = `must be "host:port"`

// peerAddress is where a sidecar listens, or may be empty and then is where it is
// reached, which needs a host.
func peerAddress(p *string, reached bool) scalar {
	return scalar{
		set: func(text string) error {
			if reached && text == "" {
				*p = ""
				return nil
			}
			if reached && strings.HasPrefix(text, ":") {
				return errors.New(peerForm)
			}
			if err := checkHostPort(text, 1, peerForm); err != nil {
				return err
			}
			*p = text
			return nil
		},
		get: func() string { return *p },
	}
}

func peerAddresses(p *[]string) listOf {
	return listOf{
		max:   256,
		clear: func() { *p = nil },
		add: func(text string) error {
			if strings.HasPrefix(text, ":") {
				return errors.New(peerForm)
			}
			if err := checkHostPort(text, 1, peerForm); err != nil {
				return err
			}
			*p = append(*p, text)
			return nil
		},
		get: func() string { return strings.Join(*p, ", ") },
	}
}

func peerName(p *string) scalar {
	odd := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }
	return scalar{
		set: func(text string) error {
			if len(text) > 128 || strings.ContainsFunc(text, odd) {
				return errors.New("must be at most 128 printable characters without blanks")
			}
			*p = text
			return nil
		},
		get: func() string { return *p },
	}
}

func absoluteFile(p *string) scalar {
	return scalar{
		set: func(text string) error {
			if text != "" && !filepath.IsAbs(text) {
				return errors.New("must be an absolute path, or empty for none")
			}
			*p = text
			return nil
		},
		get: func() string { return *p },
	}
}
