package setup

import (
	"fmt"

	"tempomat/proxy/host"
)

// Machine is what setup looks at, as it was found: nothing in it is decided. Paths
// are those that the servers use themselves; with a Place of another root they have
// that root in front.
type Machine struct {
	Place   Place
	Systemd bool    // systemd runs here
	Service Service // tempomat-proxy's own unit
	Sockets []host.Listening
	Apache  *Apache     // nil: not installed
	Nginx   *Nginx      // nil: not installed
	Pools   []host.Pool // of php-fpm
	Config  Config      // tempomat's configuration
	// Keys tells of the files with private keys that a server's configuration names
	// who may read them.
	Keys map[string]KeyFile
	// KeyGroup is the group that gets the keys which only root may read: the proxy's own,
	// or Debian's for that (ssl-cert). Empty: there is neither.
	KeyGroup string
	Groups   []string // of the proxy's user
	Foreign  []string // layouts that setup does not know, such as /etc/httpd
	Journal  *journal // what setup has done here already; nil: nothing
	// JournalFault is why that cannot be read.
	JournalFault error
}

// Place is where setup works. The zero root is the machine itself.
type Place struct {
	Root                  string // before each path; empty: the machine
	HTTP, HTTPS           int    // where the public asks
	InnerHTTP, InnerHTTPS int    // where a server moves to, or to one of the next ports
}

// Standard is the machine itself, with the ports of the web.
func Standard() Place { return Place{HTTP: 80, HTTPS: 443, InnerHTTP: 8080, InnerHTTPS: 8443} }

// Service is the state of a unit of systemd.
type Service struct{ Installed, Enabled, Active bool }

// Position is a line of a file, from 1.
type Position struct {
	Path string
	Line int
}

// Apache is an Apache httpd in Debian's layout.
type Apache struct {
	Dir     string            // /etc/apache2
	Running bool              // something of that name listens
	Hosts   []Position        // each <VirtualHost> that is in force, as Apache itself tells
	Files   []host.ConfigFile // each file that Apache reads, in its order
	Modules []string          // that are loaded, such as ssl_module
	Fault   string            // why it could not be asked, or that its configuration is broken
}

// Nginx is an nginx in Debian's layout.
type Nginx struct {
	Dir     string // /etc/nginx
	Running bool
	Files   []host.ConfigFile // each file that nginx reads, the main one first
	RealIP  bool              // it can take the client's address from a header
	Fault   string            // why it could not be asked, or that its configuration is broken
}

// Config is tempomat's configuration file.
type Config struct {
	Exists   bool
	Text     string
	Defaults bool // it changes no default, as the one that the package brings
}

// KeyFile tells who may read a private key, or a certificate.
type KeyFile struct {
	// Needs are the files and directories on the way to it that only root may use.
	Needs []Access
	// Groups are groups, beside KeyGroup, that some of them belong to.
	Groups []string
	Fault  string // why the proxy cannot be let to it
}

// Access is who may use a file or directory.
type Access struct {
	Path  string
	Group string // its name, or number
	Mode  uint32 // permission bits
	Dir   bool
}

// command is what people run to give that access.
func (a Access) command() string {
	return fmt.Sprintf("chgrp %s %s; chmod %04o %s", a.Group, a.Path, a.Mode, a.Path)
}
