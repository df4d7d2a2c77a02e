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

	"tempomat/classify"
	"tempomat/classify/robots"
	"tempomat/config/form"
)

// maxSocketPath is the longest path of a Unix socket, in bytes. Linux allows 108 in sockaddr_un, including the
// final zero.
const maxSocketPath = 107

// tcpAddress reads a TCP address, whose port must be at least 1.
func tcpAddress() form.Scalar[string] {
	return form.Checked(func(text string) error {
		return checkHostPort(text, 1, `must be "host:port" or ":port", such as 127.0.0.1:8880`)
	})
}

// socketAddress reads the address of a Unix socket, such as unix:/run/x.sock.
func socketAddress() form.Scalar[string] {
	return form.Checked(func(text string) error {
		path, isUnix := strings.CutPrefix(text, "unix:")
		if !isUnix {
			return errors.New(`must be "unix:/path"`)
		}
		return checkSocketPath(path)
	})
}

// absolutePath reads an absolute path. what names the kind of file in messages, such as "a file" or "a
// directory". absolutePath doesn't check that the path exists. The code that opens the path reports if it doesn't.
func absolutePath(what string) form.Scalar[string] {
	return form.Simple("must be the path of "+what+", beginning with /", func(text string) (string, bool) {
		clean := path.Clean(text)
		return clean, path.IsAbs(text) && clean != "/" && len(text) <= 1024
	})
}

// file reads the path of a file, or an empty string.
func file() form.Scalar[string] { return form.OrEmpty(absolutePath("a file")) }

// wordOrPath reads one of the words, in any case, or the directory of a cgroup.
func wordOrPath(words ...string) form.Scalar[string] {
	const what = "the directory of a cgroup (version 2), such as /sys/fs/cgroup/system.slice/apache2.service"
	s := form.Choice(words...)
	word := s.Parse
	s.Parse = func(text string) (string, error) {
		if path.IsAbs(text) {
			return absolutePath(what).Parse(text)
		}
		x, err := word(text)
		if err != nil {
			err = fmt.Errorf("%w, or the path of %s", err, what)
		}
		return x, err
	}
	return s
}

// listenAddress reads an address on which to serve requests. With port 0, the system chooses a port.
func listenAddress() form.Scalar[string] {
	return form.Checked(func(text string) error {
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
		return fmt.Errorf("the path of a unix socket may have at most %d bytes", maxSocketPath)
	case strings.ContainsFunc(path, odd):
		return errors.New("the path of a unix socket must not contain spaces, commas, ? or #")
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

// validHost reports whether a host is an IP address, a plausible name or empty. It catches typing errors such
// as stray punctuation.
func validHost(host string) bool {
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	odd := func(c rune) bool {
		return !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '-' || c == '_')
	}
	return len(host) <= 253 && !strings.ContainsFunc(host, odd)
}

// backendURL reads the URL of the backend and removes a trailing slash.
func backendURL() form.Scalar[string] {
	return form.Text(parseBackendURL)
}

func parseBackendURL(text string) (string, error) {
	const form = "must be http://host:port, https://host:port or unix:/path"
	u, err := url.Parse(text)
	if path, ok := strings.CutPrefix(text, "unix:"); ok {
		if err != nil {
			return "", errors.New("must be unix:/path, in which % is written as %25")
		}
		return text, checkSocketPath(path)
	}
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || !validHost(u.Hostname()):
		return "", errors.New(form)
	case u.User != nil:
		return "", errors.New(form + ", without a user or password")
	case strings.Trim(u.Path, "/") != "" || strings.ContainsAny(text, "?#"):
		return "", errors.New(form + ", without a path or query, because each request has its own")
	case u.Port() != "" || strings.HasSuffix(u.Host, ":"):
		err = checkHostPort(u.Host, 1, form)
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host}).String(), err // String escapes the zone of an address again
}

// graphiteAddress reads the address of a Graphite server and removes its scheme.
func graphiteAddress() form.Scalar[string] {
	const problem = `must be "host:port" or "tcp://host:port"`
	s := form.Text(func(text string) (string, error) {
		address := strings.TrimPrefix(text, "tcp://")
		if address == "" {
			return "", nil
		}
		if strings.HasPrefix(address, ":") {
			return "", errors.New(problem)
		}
		return address, checkHostPort(address, 1, problem)
	})
	return form.OrEmpty(s)
}

// graphitePrefix reads the prefix of the names of Graphite series.
func graphitePrefix() form.Scalar[string] {
	odd := func(c rune) bool {
		return c > unicode.MaxASCII || !unicode.IsLetter(c) && !unicode.IsDigit(c) && !strings.ContainsRune("._-", c)
	}
	return form.Simple("must be at most 200 letters, digits, dots, _ and -, and {hostname} for the machine's name", func(text string) (string, bool) {
		return text, len(text) <= 200 && !strings.ContainsFunc(strings.ReplaceAll(text, "{hostname}", ""), odd)
	})
}

// prefix reads an IP address, or a prefix such as 10.0.0.0/8.
func prefix() form.Scalar[netip.Prefix] {
	return form.Scalar[netip.Prefix]{Parse: parsePrefix, Format: netip.Prefix.String}
}

// prefixes reads a list of prefixes.
func prefixes() form.List[netip.Prefix] { return form.List[netip.Prefix]{Of: prefix(), Most: 1024} }

// parsePrefix parses a prefix or a single address. IPv4 addresses that are mapped to IPv6 become IPv4, and
// bits beyond the prefix are cleared.
func parsePrefix(text string) (netip.Prefix, error) {
	const problem = "must be an address or a prefix, such as 192.0.2.7, 10.0.0.0/8 or 2001:db8::/32"
	if addr, err := netip.ParseAddr(text); err == nil && addr.Zone() == "" {
		addr = addr.Unmap()
		return netip.PrefixFrom(addr, addr.BitLen()), nil
	}
	prefix, err := netip.ParsePrefix(text)
	if err != nil || prefix.Addr().Is4In6() && prefix.Bits() < 96 {
		return netip.Prefix{}, errors.New(problem)
	}
	return classify.Unmap(prefix), nil
}

// Proxies is one entry of trustedProxies or of a robot's addresses: a prefix, or a file with prefixes.
type Proxies struct {
	File     string         // an absolute path; empty: the configuration itself contains the prefix
	Prefixes []netip.Prefix // one prefix, or the contents of the file when the configuration was read
}

const (
	// fileWord begins an entry that names a file.
	fileWord = "file:"
	// mostInFile and mostFileBytes limit how much is read from one file.
	mostInFile    = 8192
	mostFileBytes = 512 << 10
	// mostFileFaults is the largest number of errors reported for one file. A different kind of file would have
	// an error in each line.
	mostFileFaults = 10
)

// Trusted returns all prefixes of trustedProxies, including those from files.
func (c *Config) Trusted() (all []netip.Prefix) {
	for _, p := range c.TrustedProxies {
		all = append(all, p.Prefixes...)
	}
	return all
}

// proxies reads one entry of trustedProxies.
func proxies() form.Scalar[Proxies] { return networks(everyProxy) }

// everyProxy is the error for a prefix that would trust all addresses as proxies.
const everyProxy = "would trust every client, so a client could claim any address; list the proxies"

// networks reads a prefix, or the name of a file with prefixes, which readNetworks reads later. all is the
// error for a prefix that contains all addresses.
func networks(all string) form.Scalar[Proxies] {
	return form.Scalar[Proxies]{
		Parse: func(text string) (Proxies, error) {
			if file, ok := strings.CutPrefix(text, fileWord); ok {
				return Proxies{File: file}, checkProxiesFile(file)
			}
			prefix, err := parseNarrow(text, all)
			return Proxies{Prefixes: []netip.Prefix{prefix}}, err
		},
		Format: func(p Proxies) string {
			switch {
			case p.File != "" && len(p.Prefixes) > 0: // the file has been read
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

// parseNarrow parses a prefix. If the prefix contains all addresses, parseNarrow returns an error with the text
// why.
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

// entries are the entries of one key, and each of them may name a file.
type entries struct {
	key string
	all []Proxies
	why string // the error for a prefix that contains all addresses
}

// withFiles returns the entries of all keys that may name files with prefixes.
func (c *Config) withFiles() []entries {
	all := []entries{{"trustedProxies", c.TrustedProxies, everyProxy}}
	for _, x := range c.Robots.Known {
		all = append(all, entries{"robots.known", x.Addresses, everyRobot})
	}
	return all
}

// readNetworks reads the files with prefixes that the configuration names.
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
	info, err := os.Stat(name) // checked before the file is opened, because opening a pipe would block
	switch {
	case err != nil:
		return "", err
	case !info.Mode().IsRegular():
		return "", errors.New("isn't a regular file")
	case info.Size() > mostFileBytes:
		return "", fmt.Errorf("is larger than %d KiB", mostFileBytes>>10)
	}
	data, err := os.ReadFile(name)
	return string(data), err
}

// parse reads the prefixes in a file: one per line, or a list in JSON. Lines may be empty, and # begins a
// comment. A file without a prefix is an error, because it is probably incomplete.
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
			err = fmt.Errorf("is one prefix too many; a file may have at most %d", mostInFile)
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
		r.Fault(form.Source{File: file, Key: at.Key}, "", "contains no address or prefix")
	}
	return prefixes
}
