package setup

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// certificate names the files that a TLS site serves with.
type certificate struct {
	chain, key string // the certificate with those of its authorities, and its key
}

// readable bits for the group: a directory is passed, a key is read.
const (
	groupReads  = 0o040
	groupPasses = 0o010
)

// certify takes in the certificate of a site. where is its place, for people.
func (d *decider) certify(chain, key, where string) {
	for _, f := range []string{chain, key} {
		if !path.IsAbs(f) || strings.ContainsAny(f, "$\n") {
			d.block(fmt.Sprintf("%s: the certificate's file %q is no plain path", where, f), "tempomat-proxy has to find the same file", "write its whole path there")
			return
		}
	}
	if c := (certificate{chain, key}); !slices.Contains(d.certs, c) {
		d.certs = append(d.certs, c)
	}
}

// keys lets the proxy read the private keys. What only root may read becomes the group's;
// what belongs to a group already stays so, and the proxy joins that. certbot keeps group
// and mode when it renews.
func (d *decider) keys() {
	if !d.secure {
		return
	}
	var needs []Access
	var groups []string
	for _, name := range d.certificateFiles() {
		k, known := d.m.Keys[name]
		if !known || k.Fault != "" {
			d.block("the proxy cannot be let to "+name, k.Fault, "see that the file exists, and run setup as root")
			continue
		}
		for _, a := range k.Needs {
			if !slices.ContainsFunc(needs, func(o Access) bool { return o.Path == a.Path }) {
				needs = append(needs, a)
			}
		}
		groups = append(groups, k.Groups...)
	}
	if len(needs) > 0 && d.m.KeyGroup == "" {
		d.block("there is neither a group "+proxyGroup+" nor "+keyGroup, "by it the proxy, which is not root, may read private keys", "install the package, or apt install ssl-cert")
	}
	if len(needs) > 0 && d.m.KeyGroup != proxyGroup {
		groups = append(groups, d.m.KeyGroup)
	}
	for _, a := range needs {
		now := Access{Path: a.Path, Group: d.m.KeyGroup, Mode: a.Mode | groupReads, Dir: a.Dir}
		if a.Dir {
			now.Mode = a.Mode | groupPasses
		}
		d.plan.Changes = append(d.plan.Changes, Change{Path: a.Path, Access: &now, Was: &a,
			Command: now.command()})
	}
	d.join(groups)
}

// join puts the proxy into groups.
func (d *decider) join(groups []string) {
	slices.Sort(groups)
	groups = slices.Compact(groups)
	if !d.m.Systemd {
		for _, g := range groups {
			if !slices.Contains(d.m.Groups, g) {
				d.block("a private key belongs to the group "+g, "the user "+proxyGroup+" has to read it, and is not in that group", "usermod -aG "+g+" "+proxyGroup)
			}
		}
		return
	}
	name := d.m.Place.Root + "/etc/systemd/system/" + unitName + ".service.d/setup.conf"
	if len(groups) == 0 || d.m.Journal != nil && slices.ContainsFunc(d.m.Journal.Changes, func(c Change) bool { return c.Path == name }) {
		return
	}
	d.plan.Reread = true
	d.create(name,
		"# Written by tempomat-proxy setup: the proxy reads the certificates' private keys.\n[Service]\nSupplementaryGroups="+strings.Join(groups, " ")+"\n")
}

func (d *decider) certificateFiles() (names []string) {
	for _, c := range d.certs {
		names = append(names, c.chain, c.key)
	}
	return names
}
