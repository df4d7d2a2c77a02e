package config

import (
	"errors"
	"path/filepath"
	"strings"
	"time"
	"unicode"

	"tempomat/config/form"
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

// gossipSettings are its keys. None can change while the proxy runs.
func gossipSettings(g *Gossip) []form.Setting {
	return []form.Setting{
		{Path: "coordination.gossip.listen", Value: peerListen().In(&g.Listen), Restart: true,
			Doc: "Where sidecars that share with no server tell each other, both UDP and TCP."},
		{Path: "coordination.gossip.advertise", Value: form.OrEmpty(peerAddress(), "the same").In(&g.Advertise), Restart: true,
			Doc: "Where peers reach it, if that is another address."},
		{Path: "coordination.gossip.name", Value: peerName().In(&g.Name), Restart: true,
			Doc: "Tells the sidecar from the others; no two may have the same."},
		{Path: "coordination.gossip.join", Value: form.List[string]{Of: peerAddress(), Most: 256}.In(&g.Join), Restart: true,
			Doc: "Peers, of which one that lives is enough. A host may be a DNS name of several addresses. They are tried as long as they are no members."},
		{Path: "coordination.gossip.joinFile", Value: absoluteFile().In(&g.JoinFile), Restart: true,
			Doc: "A file with more of them, one in each line, read anew each time."},
		{Path: "coordination.gossip.keyFile", Value: absoluteFile().In(&g.KeyFile), Restart: true,
			Doc: "Keys of the encryption: 16, 24 or 32 bytes in base64, one in each line; the first one encrypts, each decrypts. A reload reads it anew. Without it, whoever reaches the port can invent debts."},
		{Path: "coordination.gossip.epoch", Value: form.Duration(10*time.Millisecond, time.Second).In(&g.Epoch), Restart: true,
			Doc: "How often totals are told; the same on all sidecars."},
		{Path: "coordination.gossip.history", Value: form.Integer(2, 256).In(&g.History), Restart: true, Unit: "epochs",
			Doc: "For how many epochs what was lost can be asked for, and counts."},
		{Path: "coordination.gossip.maxSkew", Value: form.Duration(time.Millisecond, time.Minute).In(&g.MaxSkew), Restart: true,
			Doc: "How far a peer's clock may be off for its figures to count."},
		{Path: "coordination.gossip.bytesPerSecond", Value: form.Integer(4096, 1<<30).In(&g.BytesPerSecond), Restart: true, Unit: "bytes a second",
			Doc: "Most that is sent to all peers together, but for membership. Beyond it the lightest keys wait, and are given up after the history."},
	}
}

// validateGossip checks that there is somebody to find.
func validateGossip(r *form.Reader, d *draft) {
	g := &d.Coordination.Gossip
	if len(g.Join) == 0 && g.JoinFile == "" && !r.Faulty("coordination.gossip.join") {
		r.Fault(r.Given["coordination.kind"], "gossip", "needs coordination.gossip.join, such as [10.0.0.1:7946, 10.0.0.2:7946], or joinFile")
	}
}

const peerForm = `must be "host:port"`

// peerListen is where a sidecar listens.
func peerListen() form.Scalar[string] {
	return form.Text("address", "`host:port` or `:port`", func(text string) error { return checkHostPort(text, 1, peerForm) }).Matching(portPattern)
}

// peerAddress is where a sidecar is reached, which needs a host.
func peerAddress() form.Scalar[string] {
	return form.Text("address", "`host:port`", func(text string) error {
		if strings.HasPrefix(text, ":") {
			return errors.New(peerForm)
		}
		return checkHostPort(text, 1, peerForm)
	}).Matching(portPattern)
}

func peerName() form.Scalar[string] {
	odd := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) }
	return form.Text("name", "at most 128 printable characters, or empty: the machine's name and the port", func(text string) error {
		if len(text) > 128 || strings.ContainsFunc(text, odd) {
			return errors.New("must be at most 128 printable characters without blanks")
		}
		return nil
	})
}

func absoluteFile() form.Scalar[string] {
	return form.Text("path", "an absolute path, or empty: none", func(text string) error {
		if text != "" && !filepath.IsAbs(text) {
			return errors.New("must be an absolute path, or empty for none")
		}
		return nil
	}).Matching(`^(/.*)?$`)
}
