package config

import (
	"errors"
	"path/filepath"
	"strings"
	"time"

	"tempomat/config/form"
)

// Gossip is how accounts are shared among sidecars with no server at all.
type Gossip struct {
	Listen    string   // address for both UDP and TCP
	Advertise string   // at which peers reach it; empty: Listen
	Join      []string // peers, host:port; a host may be a DNS name of several addresses
	KeyFile   string   // a file with the keys of the encryption; empty: nothing is encrypted
}

func defaultGossip() Gossip { return Gossip{Listen: ":7946"} }

// gossipSettings are its keys. None can change while the proxy runs.
func gossipSettings(g *Gossip) []form.Setting {
	const p = "coordination.gossip."
	return []form.Setting{
		{Path: p + "listen", Value: peerListen().In(&g.Listen), Restart: true,
			Doc: "Where sidecars that share with no server tell each other, both UDP and TCP."},
		{Path: p + "advertise", Value: form.OrEmpty(peerAddress(), "the same").In(&g.Advertise), Restart: true,
			Doc: "Where peers reach it, if that is another address. It tells the sidecar from the others then; else the machine's name and the port do, and no two may have the same."},
		{Path: p + "join", Value: form.List[string]{Of: peerAddress(), Most: 256}.In(&g.Join), Restart: true,
			Doc: "Peers, of which one that lives is enough. A host may be a DNS name of several addresses. They are tried as long as they are no members."},
		{Path: p + "keyFile", Value: absoluteFile().In(&g.KeyFile), Restart: true,
			Doc: "Keys of the encryption: 16, 24 or 32 bytes in base64, one in each line; the first one encrypts, each decrypts. A reload reads it anew. Without it, whoever reaches the port can invent debts."},
		{Path: p + "name", Value: redisWord("").In(new(string)), Gone: "set advertise if two sidecars have the same machine's name and port"},
		{Path: p + "joinFile", Value: absoluteFile().In(new(string)), Gone: "list its addresses in join, or one DNS name that has them all"},
		{Path: p + "epoch", Value: form.Duration(time.Millisecond, time.Minute).In(new(time.Duration)), Gone: "leave it out: totals are told each 100 ms"},
		{Path: p + "history", Value: form.Integer(1, 1<<30).In(new(int)), Gone: "leave it out: the next total makes up for what was lost"},
		{Path: p + "maxSkew", Value: form.Duration(time.Millisecond, time.Hour).In(new(time.Duration)), Gone: "leave it out: clocks are not compared"},
		{Path: p + "bytesPerSecond", Value: form.Integer(1, 1<<30).In(new(int)), Gone: "leave it out: it is 1 MiB, and the heaviest keys go first"},
	}
}

// validateGossip checks that there is somebody to find. A file that was written for a
// file of peers is accepted: the warning says what to do.
func validateGossip(r *form.Reader, d *draft) {
	_, hadFile := r.Given["coordination.gossip.joinFile"]
	if len(d.Coordination.Gossip.Join) == 0 && !hadFile && !r.Faulty("coordination.gossip.join") {
		r.Fault(r.Given["coordination.kind"], "gossip", "needs coordination.gossip.join, such as [10.0.0.1:7946, 10.0.0.2:7946]")
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

func absoluteFile() form.Scalar[string] {
	return form.Text("path", "an absolute path, or empty: none", func(text string) error {
		if text != "" && !filepath.IsAbs(text) {
			return errors.New("must be an absolute path, or empty for none")
		}
		return nil
	}).Matching(`^(/.*)?$`)
}
