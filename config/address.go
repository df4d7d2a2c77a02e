package config

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"tempomat/classify/robots"
	"tempomat/config/form"
)

// maxSocketPath is what the system takes as a unix socket's path, in bytes
// (sockaddr_un has 108, one of them the closing zero).
const maxSocketPath = 107

// tcpAddress is an address of TCP, with a port from 1 on.
func tcpAddress() form.Scalar[string] {
	return form.Checked("`host:port` or `:port`", func(text string) error {
		return checkHostPort(text, 1, `must be "host:port" or ":port", such as 127.0.0.1:8880`)
	})
}

// socketAddress is that of a unix socket.
func socketAddress() form.Scalar[string] {
	return form.Checked("`unix:/path`", func(text string) error {
		path, isUnix := strings.CutPrefix(text, "unix:")
		if !isUnix {
			return errors.New(`must be "unix:/path"`)
		}
		return checkSocketPath(path)
	})
}

// absolutePath is where something lies, such as a file. Whether it is there is found out as it is used.
func absolutePath(what string) form.Scalar[string] {
	return form.Simple("absolute path of "+what, "must be the path of "+what+", beginning with /", func(text string) (string, bool) {
		clean := path.Clean(text)
		return clean, path.IsAbs(text) && clean != "/" && len(text) <= 1024
	})
}

// file is the path of one; it may be empty.
func file() form.Scalar[string] { return form.OrEmpty(absolutePath("a file"), "none") }

// wordOrPath is one of the words, in any case, or the path of a cgroup's directory.
func wordOrPath(words ...string) form.Scalar[string] {
	s, cgroup := form.Choice(words...), absolutePath("the directory of a cgroup (version 2), such as /sys/fs/cgroup/system.slice/apache2.service")
	word := s.Parse
	s.Allowed += ", or the directory of a cgroup (version 2)"
	s.Schema = form.AnyOf(s.Schema, cgroup.Schema)
	s.Parse = func(text string) (string, error) {
		if path.IsAbs(text) {
			return cgroup.Parse(text)
		}
		x, err := word(text)
		if err != nil {
			err = fmt.Errorf("%w, or %s", err, strings.Replace(cgroup.Allowed, "absolute ", "the ", 1))
		}
		return x, err
	}
	return s
}

// listenAddress is where requests are served.
func listenAddress() form.Scalar[string] {
	return form.Checked("`host:port`, `:port` or `unix:/path`", func(text string) error {
		if path, ok := strings.CutPrefix(text, "unix:"); ok {
			return checkSocketPath(path)
		}
		return checkHostPort(text, 0, `must be "host:port", ":port" or "unix:/path"`)
	})
}

func checkSocketPath(path string) error {
	odd := func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) || strings.ContainsRune(",?#", c) }
	switch {
	case !strings.HasPrefix(path, "/") || path == "/":
		return errors.New(`must be "unix:" and an absolute path, such as unix:/run/tempomat/proxy.sock`)
	case len(path) > maxSocketPath:
		return fmt.Errorf("the path of a unix socket has at most %d bytes", maxSocketPath)
	case strings.ContainsFunc(path, odd):
		return errors.New("the path of a unix socket must be without spaces, commas, ? and #")
	}
	return nil
}

// checkHostPort checks host:port with a numeric port; the host may be empty.
func checkHostPort(text string, leastPort int, problem string) error {
	host, port, err := net.SplitHostPort(text)
	if err != nil || !validHost(host) {
		return errors.New(problem)
	}
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || int(n) < leastPort {
		return fmt.Errorf("the port must be a number from %d to 65535", leastPort)
	}
	return nil
}

// validHost is true for addresses, names and nothing; not for what a typing
// slip leaves in them.
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	odd := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_')
	}
	return len(host) <= 253 && !strings.ContainsFunc(host, odd)
}

// backendURL is kept without a slash at its end.
func backendURL() form.Scalar[string] {
	return form.Text("`http://host[:port]`, `https://host[:port]` or `unix:/path`, without a path, query or user", parseBackendURL)
}

func parseBackendURL(text string) (string, error) {
	const form = "must be http://host:port, https://host:port or unix:/path"
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		return text, checkSocketPath(path)
	}
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !validHost(u.Hostname()):
		return "", errors.New(form)
	case u.User != nil:
		return "", errors.New(form + ", without a user or password")
	case strings.Trim(u.Path, "/") != "" || strings.ContainsAny(text, "?#"):
		return "", errors.New(form + ", without a path or query: those are the request's")
	case u.Port() != "" || strings.HasSuffix(u.Host, ":"):
		err = checkHostPort(u.Host, 1, form)
	}
	return u.Scheme + "://" + u.Host, err
}

// graphiteAddress is kept without its scheme.
func graphiteAddress() form.Scalar[string] {
	const problem = `must be "host:port" or "tcp://host:port"`
	s := form.Text("`host:port` or `tcp://host:port`", func(text string) (string, error) {
		address := strings.TrimPrefix(text, "tcp://")
		if address == "" {
			return "", nil
		}
		if strings.HasPrefix(address, ":") {
			return "", errors.New(problem)
		}
		return address, checkHostPort(address, 1, problem)
	})
	return form.OrEmpty(s, "nowhere")
}

// graphitePrefix is what Graphite takes as a series' name.
func graphitePrefix() form.Scalar[string] {
	odd := func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("._-", c)
	}
	return form.Simple("at most 200 letters, digits, `.`, `_` and `-`, and `{hostname}`",
		"must be at most 200 letters, digits, dots, _ and -, and {hostname} where the machine's name shall stand", func(text string) (string, bool) {
			return text, len(text) <= 200 && !strings.ContainsFunc(strings.ReplaceAll(text, "{hostname}", ""), odd)
		})
}

// prefix is an address or a prefix of addresses.
func prefix() form.Scalar[netip.Prefix] {
	return form.Scalar[netip.Prefix]{
		Allowed: "an address or a prefix, such as `10.0.0.0/8`",
		Schema:  form.Schema{"type": "string"},
		Parse:   parsePrefix, Format: netip.Prefix.String,
	}
}

// prefixes is a list of them.
func prefixes() form.List[netip.Prefix] { return form.List[netip.Prefix]{Of: prefix(), Most: 1024} }

// parsePrefix takes a prefix or a single address; v4-mapped ones become IPv4,
// bits beyond the prefix are dropped.
func parsePrefix(text string) (netip.Prefix, error) {
	const problem = "must be an address or a prefix, such as 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32"
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil {
		return netip.Prefix{}, errors.New(problem)
	}
	if prefix.Addr().Is4In6() {
		if prefix.Bits() < 96 {
			return netip.Prefix{}, errors.New(problem)
		}
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-96)
	}
	return prefix.Masked(), nil
}

// Proxies is one entry of trustedProxies, or of a robot's addresses: a prefix, or a file of
// them.
type Proxies struct {
	File     string         // an absolute path; empty: the prefix stands in the configuration itself
	Prefixes []netip.Prefix // one, or what was in the file when the configuration was read
}

const (
	// fileWord begins an entry that names a file.
	fileWord = "file:"
	// mostInFile and mostFileBytes bound what is read of one file.
	mostInFile    = 8192
	mostFileBytes = 512 << 10
	// mostFileFaults bounds what is told of one file, which may be of another kind.
	mostFileFaults = 10
)

// Trusted are the prefixes of trustedProxies, those in files included.
func (c *Config) Trusted() (all []netip.Prefix) {
	for _, p := range c.TrustedProxies {
		all = append(all, p.Prefixes...)
	}
	return all
}

// proxies is one entry of trustedProxies.
func proxies() form.Scalar[Proxies] { return networks(everyProxy) }

// everyProxy is what is wrong with all addresses as those of proxies.
const everyProxy = "would trust every client, so a client could claim any address; list the proxies"

// networks is a prefix or a file of them; all is the error for a prefix of all addresses.
// readNetworks reads the files later.
func networks(all string) form.Scalar[Proxies] {
	return form.Scalar[Proxies]{
		Allowed: prefix().Allowed + ", or `file:/path`",
		Schema:  form.Schema{"type": "string"},
		Parse: func(text string) (Proxies, error) {
			if file, ok := strings.CutPrefix(text, fileWord); ok {
				return Proxies{File: file}, checkProxiesFile(file)
			}
			prefix, err := parseNarrow(text, all)
			return Proxies{Prefixes: []netip.Prefix{prefix}}, err
		},
		Format: func(p Proxies) string {
			switch {
			case p.File != "" && len(p.Prefixes) > 0: // it was read
				return fmt.Sprintf("%s%s (%d)", fileWord, p.File, len(p.Prefixes))
			case p.File != "":
				return fileWord + p.File
			}
			texts := make([]string, 0, 1)
			for _, prefix := range p.Prefixes {
				texts = append(texts, prefix.String())
			}
			return strings.Join(texts, ", ")
		},
	}
}

// parseNarrow takes a prefix that does not contain all addresses; otherwise the error is why.
func parseNarrow(text, why string) (netip.Prefix, error) {
	prefix, err := parsePrefix(text)
	if err == nil && prefix.Bits() == 0 {
		err = errors.New(why)
	}
	return prefix, err
}

func checkProxiesFile(file string) error {
	if !path.IsAbs(file) || strings.ContainsAny(file, ",\n") {
		return errors.New(`must be "file:" and an absolute path without commas, such as file:/etc/tempomat/cloudflare.txt`)
	}
	return nil
}

// entries are those of a key that may name files.
type entries struct {
	key string
	all []Proxies
	why string // all addresses are not allowed there
}

// withFiles are the keys that may name files of prefixes.
func (c *Config) withFiles() []entries {
	all := []entries{{"trustedProxies", c.TrustedProxies, everyProxy}}
	for _, x := range c.Robots.Known {
		all = append(all, entries{"robots.known", x.Addresses, everyRobot})
	}
	return all
}

// readNetworks reads the files of prefixes that the configuration names.
func readNetworks(r *form.Reader, d *draft) {
	for _, of := range d.withFiles() {
		for i, p := range of.all {
			if p.File == "" {
				continue
			}
			data, err := readProxiesFile(p.File)
			if err != nil {
				r.Fault(r.Given[of.key], form.Quoted(fileWord+p.File), err.Error())
				continue
			}
			of.all[i].Prefixes = of.parse(r, p.File, data)
		}
	}
}

func readProxiesFile(name string) (string, error) {
	info, err := os.Stat(name) // before opening, because opening a pipe would wait
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("is no file")
	case info.Size() > mostFileBytes:
		return "", fmt.Errorf("is larger than %d KiB", mostFileBytes>>10)
	}
	data, err := os.ReadFile(name)
	return string(data), err
}

// parse takes the prefixes of a file: one in each line, or those of a list in JSON. Lines
// may be empty; # begins a comment. A file without any went wrong.
func (of *entries) parse(r *form.Reader, file, text string) (prefixes []netip.Prefix) {
	at := form.Source{File: file, Key: of.key}
	lines, step := strings.Lines(text), 1
	if strings.HasPrefix(strings.TrimSpace(text), "{") {
		published, err := robots.Published(text)
		if err != nil {
			r.Fault(at, "", err.Error())
			return nil
		}
		lines, step = slices.Values(published), 0
	}
	faults := 0
	for line := range lines {
		at.Line += step
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		prefix, err := parseNarrow(line, of.why)
		if err == nil && len(prefixes) == mostInFile {
			err = fmt.Errorf("is one too many; a file has at most %d", mostInFile)
		}
		if err != nil {
			r.Fault(at, form.Quoted(line), err.Error())
			if faults++; faults == mostFileFaults {
				break
			}
			continue
		}
		prefixes = append(prefixes, prefix)
	}
	if len(prefixes) == 0 && faults == 0 {
		r.Fault(form.Source{File: file, Key: at.Key}, "", "has no address and no prefix")
	}
	return prefixes
}
