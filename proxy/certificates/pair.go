package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// largestFile is how much is read of a file, in bytes.
const largestFile = 256 << 10

// pair is a certificate with its key, as last read.
type pair struct {
	files
	stamp  [2]stamp
	shown  *tls.Certificate // nil: it was never valid
	names  []string         // lower case, and addresses
	fault  string           // of the last attempt; empty: none
	public bool             // every user of this machine can read the key

	missing bool // it was not in its directory
}

// stamp reports whether a file is still the same.
type stamp struct {
	changed time.Time
	size    int64
	info    os.FileInfo
}

func (s stamp) same(o stamp) bool {
	return s.info != nil && o.info != nil && s.size == o.size && s.changed.Equal(o.changed) && os.SameFile(s.info, o.info)
}

// stampOf follows links, because certbot changes their targets. A missing file has no stamp.
func stampOf(file string) stamp {
	info, err := os.Stat(file)
	if err != nil {
		return stamp{}
	}
	return stamp{info.ModTime(), info.Size(), info}
}

// reread reads the pair if its files have changed since, or could not be read then. It returns
// the pair as it is now, and whether it was read.
func (p pair) reread() (now pair, read bool, err error) {
	stamps := [2]stamp{stampOf(p.certificate), stampOf(p.key)}
	if p.fault == "" && p.shown != nil && stamps[0].same(p.stamp[0]) && stamps[1].same(p.stamp[1]) {
		return p, false, nil
	}
	p.stamp = stamps
	shown, public, err := readPair(p.files)
	if err != nil {
		p.fault = err.Error()
		return p, true, err
	}
	p.shown, p.public, p.fault, p.names = shown, public, "", namesOf(shown.Leaf)
	return p, true, nil
}

func readPair(f files) (c *tls.Certificate, public bool, err error) {
	certificate, _, err := readFile(f.certificate)
	if err != nil {
		return nil, false, err
	}
	key, mode, err := readFile(f.key)
	if err != nil {
		return nil, false, err
	}
	made, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, false, fmt.Errorf("%s with %s: %w", f.certificate, f.key, err)
	}
	if made.Leaf == nil {
		if made.Leaf, err = x509.ParseCertificate(made.Certificate[0]); err != nil {
			return nil, false, fmt.Errorf("%s: %w", f.certificate, err)
		}
	}
	return &made, mode&0o004 != 0, nil
}

func readFile(name string) (data []byte, mode fs.FileMode, err error) {
	info, err := os.Stat(name) // before opening, because opening a pipe would wait
	if err != nil {
		return nil, 0, withHint(err)
	}
	if !info.Mode().IsRegular() {
		return nil, 0, fmt.Errorf("%s is no file", name)
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, 0, withHint(err)
	}
	defer f.Close()
	if data, err = io.ReadAll(io.LimitReader(f, largestFile+1)); err != nil {
		return nil, 0, err
	}
	if len(data) > largestFile {
		return nil, 0, fmt.Errorf("%s is larger than %d bytes", name, largestFile)
	}
	if len(data) == 0 {
		return nil, 0, fmt.Errorf("%s: %w", name, errors.New("is empty"))
	}
	return data, info.Mode(), nil
}

// withHint adds what would make an unreadable file readable.
func withHint(err error) error {
	if errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("%w; let the proxy's group read it (chgrp tempomat, chmod 640), and pass its directories (chmod g+x)", err)
	}
	return err
}

func namesOf(leaf *x509.Certificate) (names []string) {
	for _, n := range leaf.DNSNames {
		names = append(names, strings.ToLower(n))
	}
	for _, ip := range leaf.IPAddresses {
		names = append(names, ip.String())
	}
	return names
}

// Source is where certificates are: a pair of files, a directory, or one file.
type Source struct {
	Certificate string // a file with the certificate and its chain, as PEM
	Key         string // a file with its private key, as PEM
	Path        string // instead: a directory with such pairs, or a file with both
}

// files are those of a pair.
type files struct{ certificate, key string }

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
			continue // as Kubernetes names what its links lead to
		}
		more, e := pairsIn(below)
		found, err = append(found, more...), errors.Join(err, e)
	}
	if err == nil && len(found) == 0 {
		err = fmt.Errorf("%s has no certificate with its key: neither NAME.crt or NAME.pem with NAME.key, nor fullchain.pem with privkey.pem, there or one directory below", s.Path)
	}
	return found, err
}

// pairsIn lists the pairs in a directory itself. certbot's has more certificates next to that of
// the pair (cert.pem, chain.pem).
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
			continue // a certificate of another owner, or its key is still to come
		}
		found = append(found, files{name, key})
	}
	return found, nil
}
