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

// Secret is what all instances of a fleet have in common, as the file of coordination.secret has
// it. All keys are derived from it, one for each purpose.
//
// The file has one secret in a line, in base64, and when it begins to sign. The first line is the
// current secret, the next the one before, and the last the first that there was, by which hashes are
// keyed: so a rotation makes nobody a stranger. A new secret signs a while after it was made, when the
// file has been copied to all; before that the former one does. Each verifies while the other signs, the
// former for a day.
type Secret struct {
	current, previous, first []byte
	from                     time.Time // when current begins to sign
}

const (
	leastSecret = 32 // bytes
	// rollOut is how long there is to copy a new secret to all instances.
	rollOut = 10 * time.Minute
	// former is how long the one before verifies once the new one signs, and settle how long
	// until another rotation leaves nothing behind that the one before it has signed.
	former, settle = 24 * time.Hour, 15 * time.Minute
	// DefaultSecretFile is where the command makes it.
	DefaultSecretFile = "/etc/tempomat/fleet.secret" //nolint:gosec // the name of a file
	serviceGroup      = "tempomat"
)

// readSecret reads a file. The error names it and says what to do.
func readSecret(file string) (*Secret, error) {
	s, err := parseSecret(file)
	if err != nil {
		return nil, fmt.Errorf("coordination.secret: %w", err)
	}
	return s, nil
}

// CheckSecret returns what is wrong with the file: then nothing is shared.
func CheckSecret(c *config.Config) error {
	if c.Coordination.Secret == "" {
		return nil
	}
	_, err := readSecret(c.Coordination.Secret)
	return err
}

// longestSecret bounds the file, which has three secrets at most, in bytes.
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
			return nil, fmt.Errorf("%s:%d: must be at least %d random bytes in base64. Make one: tempomat-proxy secret new", file, n+1, leastSecret)
		}
		from := time.Time{}
		if len(words) > 1 {
			if from, err = time.Parse(time.RFC3339, words[1]); err != nil {
				return nil, fmt.Errorf("%s:%d: %s: must be when the secret begins to sign, such as 2026-11-25T08:00:00Z", file, n+1, words[1])
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
		return nil, fmt.Errorf("%s: there is no secret in it. Make one: tempomat-proxy secret new", file)
	}
	return s, nil
}

// at returns the secret that signs, and the other one that verifies.
func (s *Secret) at(now time.Time) (signing, other []byte) {
	switch age := now.Sub(s.from); {
	case age < 0:
		return s.previous, s.current
	case age < former:
		return s.current, s.previous
	}
	return s.current, s.current
}

// derive makes the key of one purpose.
func derive(secret []byte, purpose string) [32]byte {
	key, err := hkdf.Key(sha256.New, secret, nil, "tempomat "+purpose, 32)
	if err != nil {
		panic(err) // not reached: the length fits
	}
	return [32]byte(key)
}

// hashKey is the key of hashes.
func (s *Secret) hashKey(of string) [16]byte {
	k := derive(s.first, "hashes of "+of)
	return [16]byte(k[:])
}

// salt hides clients in Redis.
func (s *Secret) salt() string {
	k := derive(s.first, "redis")
	return hex.EncodeToString(k[:])
}

// tickets are the keys of TLS session tickets, one for each day. The first one encrypts.
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

// MakeSecret makes a file that is not there yet, and says what to do with it.
func MakeSecret(file string, now time.Time, out io.Writer) error {
	if _, err := os.Lstat(file); !errors.Is(err, fs.ErrNotExist) {
		return cmp.Or(err, fmt.Errorf("%s is there already. Replace its secret: tempomat-proxy secret rotate", file))
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
	fmt.Fprintf(out, "Made %s, fingerprint %s.\nCopy it to all web servers (root:%s, mode 640), add coordination: {secret: %[1]s} to the configuration, and restart tempomat-proxy.\n",
		file, fingerprint(s.current), serviceGroup)
	return nil
}

// ShowSecret prints what a file's secret may show.
func ShowSecret(file string, now time.Time, out io.Writer) error {
	s, err := parseSecret(file)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%s: fingerprint %s\n", file, fingerprint(s.current))
	switch age := now.Sub(s.from); {
	case age < 0:
		fmt.Fprintf(out, "It signs from %s; until then %s does.\n", stamp(s.from), fingerprint(s.previous))
	case age < former && !bytes.Equal(s.previous, s.current):
		fmt.Fprintf(out, "The one before, %s, verifies until %s.\n", fingerprint(s.previous), stamp(s.from.Add(former)))
	}
	return nil
}

// RotateSecret replaces the secret of a file.
func RotateSecret(file string, now time.Time, out io.Writer) error {
	old, err := parseSecret(file)
	if err != nil {
		return err
	}
	if ready := old.from.Add(settle); now.Before(ready) {
		return fmt.Errorf("%s was rotated a short time ago: what the secret before it has signed still counts. Rotate it again after %s", file, stamp(ready))
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
	fmt.Fprintf(out, "%s has a new secret, fingerprint %s, which signs from %s.\nBefore that copy the file to all web servers, and run on each: systemctl reload tempomat-proxy\n",
		file, fingerprint(s.current), stamp(s.from))
	return nil
}

func newSecret() []byte {
	secret := make([]byte, leastSecret)
	_, _ = rand.Read(secret) // never fails
	return secret
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// write replaces a file as a whole, for that owner and group; -1: as the system has it.
func (s *Secret) write(file string, uid, gid int) error {
	text := "# The secret of a fleet of tempomat-proxy: the same file on all web servers. tempomat-proxy secret shows and rotates it.\n"
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
