package config

import (
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"path"
	"slices"
	"strings"

	"tempomat/config/form"
)

// Proxies is one entry of trustedProxies: a prefix, or a file of them.
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

// proxies is one entry. What is in a file is read later, by readProxies.
func proxies() form.Scalar[Proxies] {
	return form.Scalar[Proxies]{
		Type: "prefix", Allowed: prefix().Allowed + ", but not all addresses (`/0`); or `file:/path` of a file with one in each line",
		Schema: form.Schema{"type": "string"},
		Parse: func(text string) (Proxies, error) {
			if file, ok := strings.CutPrefix(text, fileWord); ok {
				return Proxies{File: file}, checkProxiesFile(file)
			}
			prefix, err := parseTrusted(text)
			return Proxies{Prefixes: []netip.Prefix{prefix}}, err
		},
		Format: func(p Proxies) string {
			if p.File != "" {
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

// parseTrusted takes a prefix that does not have everybody in it.
func parseTrusted(text string) (netip.Prefix, error) {
	prefix, err := parsePrefix(text)
	if err == nil && prefix.Bits() == 0 {
		err = errors.New("would trust everybody, and anybody could claim any address; name the proxies")
	}
	return prefix, err
}

func checkProxiesFile(file string) error {
	if !path.IsAbs(file) || strings.ContainsAny(file, ",\n") {
		return errors.New(`must be "file:" and an absolute path without commas, such as file:/etc/tempomat/cloudflare.txt`)
	}
	return nil
}

// readProxies reads the files that trustedProxies names.
func readProxies(r *form.Reader, d *draft) {
	for i, p := range d.TrustedProxies {
		if p.File == "" {
			continue
		}
		data, err := readProxiesFile(p.File)
		if err != nil {
			r.Fault(r.Given["trustedProxies"], form.Quoted(fileWord+p.File), err.Error())
			continue
		}
		d.TrustedProxies[i].Prefixes = parseProxies(r, p.File, data)
	}
}

func readProxiesFile(name string) (string, error) {
	info, err := os.Stat(name) // before it is opened, as that of a pipe would wait
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is no file")
	}
	if err != nil {
		return "", reason(err)
	}
	f, err := os.Open(name)
	if err != nil {
		return "", reason(err)
	}
	defer func() { _ = f.Close() }() // it was only read
	data, err := io.ReadAll(io.LimitReader(f, mostFileBytes+1))
	if err != nil {
		return "", reason(err)
	}
	if len(data) > mostFileBytes {
		return "", fmt.Errorf("is larger than %d KiB", mostFileBytes>>10)
	}
	return string(data), nil
}

// reason is an error of the system without the file's name, which is told before it.
func reason(err error) error {
	if of, ok := errors.AsType[*os.PathError](err); ok {
		err = of.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}

// parseProxies takes the prefix in each line of a file. Lines may be empty; # begins a
// comment. A file without any would trust nobody, and so is one that went wrong.
func parseProxies(r *form.Reader, file, text string) (prefixes []netip.Prefix) {
	at := form.Source{File: file, Key: "trustedProxies"}
	faults := 0
	for line := range strings.Lines(text) {
		at.Line++
		line, _, _ = strings.Cut(line, "#")
		if line = strings.TrimSpace(line); line == "" {
			continue
		}
		prefix, err := parseTrusted(line)
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

// fileChanges are those of what is in the files that both configurations name.
func fileChanges(old, new *Config) (changes []Change) {
	for _, before := range old.TrustedProxies {
		for _, after := range new.TrustedProxies {
			if before.File == "" || before.File != after.File || slices.Equal(before.Prefixes, after.Prefixes) {
				continue
			}
			in := func(p Proxies) string { return fmt.Sprintf("%d in %s", len(p.Prefixes), p.File) }
			changes = append(changes, Change{Key: "trustedProxies", Old: in(before), New: in(after)})
		}
	}
	return changes
}
