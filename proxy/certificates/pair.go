package certificates

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"
)

// largestFile is how much is read of a file, in bytes.
const largestFile = 256 << 10

// pair is a certificate with its key, as they were read.
type pair struct {
	files
	stamp  [2]stamp
	shown  *tls.Certificate // nil: it was never sound
	names  []string         // lower case, and addresses
	fault  string           // of the last attempt; empty: none
	public bool             // everybody on this machine can read the key

	missing bool // it was not in its directory
}

// stamp tells whether a file is still the same.
type stamp struct {
	changed time.Time
	size    int64
	info    os.FileInfo
}

func (s stamp) same(o stamp) bool {
	return s.info != nil && o.info != nil && s.size == o.size && s.changed.Equal(o.changed) && os.SameFile(s.info, o.info)
}

// stampOf follows links, as certbot changes where they lead. A file that is not there has none.
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
	info, err := os.Stat(name) // before it is opened, as that of a pipe would wait
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

// withHint says what lets a file be read that may not be.
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
