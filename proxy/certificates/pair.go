package certificates

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// largestFile is the size of the largest file that is read, in bytes.
const largestFile = 256 << 10

// pair is a certificate with its key, as last read.
type pair struct {
	files
	raw    [2][]byte        // content of the files
	shown  *tls.Certificate // certificate that clients get; nil: the pair was never valid
	names  []string         // names in the certificate, in lower case
	fault  string           // why the last attempt to read the pair failed; empty: it succeeded
	public bool             // whether every user of this machine can read the key
}

// files are the paths of a pair's two files.
type files struct{ certificate, key string }

// reread reads the files and returns the pair as it is now, and whether it has changed. A pair
// that can't be used keeps the certificate that it had.
func (p pair) reread() (now pair, changed bool, err error) {
	var raw [2][]byte
	var mode fs.FileMode
	if raw[0], _, err = readFile(p.certificate); err == nil {
		raw[1], mode, err = readFile(p.key)
	}
	var shown tls.Certificate
	if err == nil {
		if p.fault == "" && p.shown != nil && bytes.Equal(raw[0], p.raw[0]) && bytes.Equal(raw[1], p.raw[1]) {
			return p, false, nil
		}
		if shown, err = tls.X509KeyPair(raw[0], raw[1]); err != nil {
			err = fmt.Errorf("%s with %s: %w", p.certificate, p.key, err)
		}
	}
	if err != nil {
		p.fault = err.Error()
		return p, true, err
	}
	p.raw, p.shown, p.names, p.public, p.fault = raw, &shown, namesOf(shown.Leaf), mode&0o004 != 0, ""
	return p, true, nil
}

func readFile(name string) (data []byte, mode fs.FileMode, err error) {
	info, err := os.Stat(name) // checked before opening, because opening a named pipe would block
	switch {
	case err != nil:
		return nil, 0, withHint(err)
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s is not a regular file", name)
	case info.Size() > largestFile:
		return nil, 0, fmt.Errorf("%s is larger than %d bytes", name, largestFile)
	}
	if data, err = os.ReadFile(name); err != nil {
		return nil, 0, withHint(err)
	}
	return data, info.Mode(), nil
}

// withHint adds advice on how to make an unreadable file readable.
func withHint(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; give the group tempomat read access to it (chgrp tempomat, chmod 640) and access to its directories (chmod g+x)", err)
	}
	return err
}

func namesOf(leaf *x509.Certificate) (names []string) {
	for _, n := range leaf.DNSNames {
		names = append(names, strings.ToLower(n))
	}
	return names
}

// Source is the location of certificates: a pair of files, a directory, or one file.
type Source struct {
	Certificate string // a file with the certificate and its chain, as PEM
	Key         string // a file with its private key, as PEM
	Path        string // a directory of pairs, or a file with certificate and key; replaces the other two
}

// find lists the pairs of a source, in the order of their names.
func (s Source) find() ([]files, error) {
	if s.Path == "" {
		return []files{{s.Certificate, s.Key}}, nil
	}
	if info, err := os.Stat(s.Path); err == nil && info.Mode().IsRegular() {
		return []files{{s.Path, s.Path}}, nil
	}
	found, err := pairsIn(s.Path)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(s.Path)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		below := filepath.Join(s.Path, e.Name())
		if info, err := os.Stat(below); err != nil || !info.IsDir() || strings.HasPrefix(e.Name(), ".") {
			continue // such directories hold the targets of Kubernetes's links, and are found through the links
		}
		more, e := pairsIn(below)
		found, err = append(found, more...), errors.Join(err, e)
	}
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s has no certificate with its key: it must contain NAME.crt or NAME.pem with NAME.key, or fullchain.pem with privkey.pem, directly or in a subdirectory", s.Path)
	}
	return found, err
}

// pairsIn lists the pairs in a directory, but not in its subdirectories. It skips certificates without a key of
// the same name, such as cert.pem and chain.pem of certbot.
func pairsIn(dir string) (found []files, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		name := filepath.Join(dir, e.Name())
		base, ext := strings.TrimSuffix(name, filepath.Ext(name)), filepath.Ext(name)
		key := ""
		switch {
		case strings.HasPrefix(e.Name(), "."):
			continue
		case e.Name() == "fullchain.pem":
			key = filepath.Join(dir, "privkey.pem")
		case ext == ".crt" || ext == ".pem" || ext == ".cer":
			key = base + ".key"
		}
		if key == "" {
			continue
		}
		if _, err := os.Stat(key); errors.Is(err, fs.ErrNotExist) {
			continue // a certificate without its key is an authority's, or its key isn't written yet
		}
		found = append(found, files{name, key})
	}
	return found, nil
}
