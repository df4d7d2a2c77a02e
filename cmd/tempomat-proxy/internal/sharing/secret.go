package sharing

import (
	"bytes"
	"cmp"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
	"time"

	"tempomat/cmd/internal/daemon"
	"tempomat/config"
	"tempomat/limiter/known"
)

// Secret is the secret that all instances of a fleet share, in the file of coordination.secret. All keys are
// derived from it, a different one for each purpose.
//
// Each line of the file contains one secret in base64: first the current secret, then its predecessor, and last the
// oldest secret. The first line also contains the time at which its secret begins to sign. The oldest secret is the
// key of the hashes, so known clients stay known after a rotation. A new secret begins to sign some time after it was
// made, when its file has been copied to all machines. Until then, its predecessor signs. Signatures made with the
// other of these two secrets are also accepted, but those of the predecessor only for a day after it has stopped
// signing.
type Secret struct {
	current, previous, first []byte
	from                     time.Time // when current begins to sign
}

const (
	leastSecret = 32 // bytes
	// rollOut is the time in which a new secret can be copied to all machines.
	rollOut = 10 * time.Minute
	// former is how long the predecessor is accepted after the new secret has begun to sign. settle is the
	// pause after which another rotation is allowed, because nothing important that the predecessor signed is
	// still valid by then.
	former, settle = 24 * time.Hour, 15 * time.Minute
	// DefaultSecretFile is the path at which the command creates the file.
	DefaultSecretFile = "/etc/tempomat/fleet.secret" //nolint:gosec // the name of a file
	serviceGroup      = "tempomat"
)

// readSecret reads a secret from its file. The error names the file and says what to do.
func readSecret(file string) (*Secret, error) {
	s, err := parseSecret(file)
	if err != nil {
		return nil, fmt.Errorf("coordination.secret: %w", err)
	}
	return s, nil
}

// CheckSecret returns the error in the file with the secret, or nil. If there is an error, nothing is shared.
func CheckSecret(c *config.Config) error {
	if c.Coordination.Secret == "" {
		return nil
	}
	_, err := readSecret(c.Coordination.Secret)
	return err
}

// longestSecret limits the size of the file, in bytes. The file contains at most three secrets.
const longestSecret = 4096

func parseSecret(file string) (*Secret, error) {
	text, err := daemon.ReadSecret(file, longestSecret)
	if err != nil {
		return nil, err
	}
	s := &Secret{}
	for n, line := range strings.Split(string(text), "\n") {
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		secret, err := base64.StdEncoding.DecodeString(words[0])
		if err != nil || len(secret) < leastSecret {
			return nil, fmt.Errorf("%s:%d: the secret must be at least %d random bytes in base64. Copy the file from another instance, or delete it and make a new one: tempomat-proxy secret new", file, n+1, leastSecret)
		}
		from := time.Time{}
		if len(words) > 1 {
			if from, err = time.Parse(time.RFC3339, words[1]); err != nil {
				return nil, fmt.Errorf("%s:%d: %s: must be the time from which the secret signs, such as 2026-11-25T08:00:00Z", file, n+1, words[1])
			}
		}
		switch {
		case s.current == nil:
			s.current, s.previous, s.first, s.from = secret, secret, secret, from
		case bytes.Equal(s.previous, s.current):
			s.previous, s.first = secret, secret
		default:
			s.first = secret
		}
	}
	if s.current == nil {
		return nil, fmt.Errorf("%s contains no secret. Copy the file from another instance, or delete it and make a new one: tempomat-proxy secret new", file)
	}
	return s, nil
}

// at returns the secret that signs at a time, and the other one, which is also accepted.
func (s *Secret) at(now time.Time) (signing, other []byte) {
	switch age := now.Sub(s.from); {
	case age < 0:
		return s.previous, s.current
	case age < former:
		return s.current, s.previous
	}
	return s.current, s.current
}

// derive derives the key for a purpose.
func derive(secret []byte, purpose string) [32]byte {
	key, err := hkdf.Key(sha256.New, secret, nil, "tempomat "+purpose, 32)
	if err != nil {
		panic(err) // not reached: the length fits
	}
	return [32]byte(key)
}

// hashKey derives the key for one kind of hashes.
func (s *Secret) hashKey(of string) [16]byte {
	k := derive(s.first, "hashes of "+of)
	return [16]byte(k[:])
}

// salt derives the salt that hides clients in Redis.
func (s *Secret) salt() string {
	k := derive(s.first, "redis")
	return hex.EncodeToString(k[:])
}

// tickets derives the keys of TLS session tickets, one for each day. The first one encrypts.
func (s *Secret) tickets(now time.Time) (keys [][32]byte) {
	signing, other := s.at(now)
	for _, secret := range [][]byte{signing, other} {
		for day := range int64(2) {
			keys = append(keys, derive(secret, "tickets of day "+strconv.FormatInt(dayOf(now)-day, 10)))
		}
	}
	return keys
}

func dayOf(now time.Time) int64 { return now.Unix() / (24 * 3600) }

func fingerprint(secret []byte) string {
	print := known.Fingerprint(derive(secret, packets))
	return hex.EncodeToString(print[:])
}

// MakeSecret creates a file that doesn't exist yet, and prints what to do with it.
func MakeSecret(file string, now time.Time, out io.Writer) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, fmt.Errorf("%s already exists. To replace its secret: tempomat-proxy secret rotate", file))
	}
	s := &Secret{from: now}
	s.current = newSecret()
	s.previous, s.first = s.current, s.current
	group := -1
	if g, err := user.LookupGroup(serviceGroup); err == nil {
		group, _ = strconv.Atoi(g.Gid)
	}
	if err := s.write(file, -1, group); err != nil {
		return err
	}
	fmt.Fprintf(out, "Created %s with the fingerprint %s.\nCopy it to all web servers (root:%s, mode 640), add coordination: {secret: %[1]s} to the configuration, and restart tempomat-proxy.\n",
		file, fingerprint(s.current), serviceGroup)
	return nil
}

// ShowSecret prints the fingerprints of a file's secrets, and when they sign or are accepted.
func ShowSecret(file string, now time.Time, out io.Writer) error {
	s, err := parseSecret(file)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: fingerprint %s\n", file, fingerprint(s.current))
	switch age := now.Sub(s.from); {
	case age < 0:
		fmt.Fprintf(out, "It signs from %s; until then, the previous one (%s) signs.\n", stamp(s.from), fingerprint(s.previous))
	case age < former && !bytes.Equal(s.previous, s.current):
		fmt.Fprintf(out, "The previous one, %s, is accepted until %s.\n", fingerprint(s.previous), stamp(s.from.Add(former)))
	}
	return nil
}

// RotateSecret puts a new secret into a file.
func RotateSecret(file string, now time.Time, out io.Writer) error {
	old, err := parseSecret(file)
	if err != nil {
		return err
	}
	if ready := old.from.Add(settle); now.Before(ready) {
		return fmt.Errorf("%s was made or rotated less than 15 minutes ago, and signatures of the previous secret are still valid. Rotate it again after %s", file, stamp(ready))
	}
	info, err := os.Stat(file)
	if err != nil {
		return err
	}
	uid, gid := -1, -1
	if owner, ok := info.Sys().(*syscall.Stat_t); ok {
		uid, gid = int(owner.Uid), int(owner.Gid)
	}
	s := &Secret{current: newSecret(), previous: old.current, first: old.first, from: now.Add(rollOut)}
	if err := s.write(file, uid, gid); err != nil {
		return err
	}
	fmt.Fprintf(out, "%s has a new secret, fingerprint %s, which signs from %s.\nBefore then, copy the file to all web servers, and run on each: systemctl reload tempomat-proxy\n",
		file, fingerprint(s.current), stamp(s.from))
	return nil
}

func newSecret() []byte {
	secret := make([]byte, leastSecret)
	_, _ = rand.Read(secret) // never fails
	return secret
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// write replaces the whole file. The file's owner and group become uid and gid. -1 stands for those of this
// process.
func (s *Secret) write(file string, uid, gid int) error {
	text := "# The secret of a fleet of tempomat-proxy. All web servers need the same file. tempomat-proxy secret shows and rotates the secret.\n"
	line := func(secret []byte) string { return base64.StdEncoding.EncodeToString(secret) }
	text += line(s.current) + " " + stamp(s.from) + "\n"
	if !bytes.Equal(s.previous, s.current) {
		text += line(s.previous) + "\n"
	}
	if !bytes.Equal(s.first, s.previous) {
		text += line(s.first) + "\n"
	}
	return daemon.ReplaceFile(file, 0o640, uid, gid, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	})
}
