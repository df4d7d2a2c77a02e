package certificates

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Source is where certificates are: a pair of files, a directory, or one file.
type Source struct {
	Certificate string // a file with the certificate, and those of who has signed it, as PEM
	Key         string // a file with its private key, as PEM
	Path        string // instead: a directory with such pairs, or a file with both
}

// mostPairs is how many pairs there may be altogether.
const mostPairs = 1000

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

// pairsIn lists the pairs in a directory itself. certbot's has more certificates beside that of
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
			continue // a certificate of somebody else, or a key that is about to come
		}
		found = append(found, files{name, key})
	}
	return found, nil
}
