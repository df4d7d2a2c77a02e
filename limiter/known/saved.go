package known

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"math/bits"
)

const (
	version   = 1
	headSize  = 1 + 16 + 8
	savedSize = headSize + 2*bloomBits/8 + sha256.Size
)

var errSaved = errors.New("not what a limiter of this version knows of clients")

// AppendBinary appends what is to survive a restart: a version, the secret, when
// the newer generation began, both generations, and a checksum.
func (k *Clients) AppendBinary(b []byte) ([]byte, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	from := len(b)
	b = append(append(b, version), k.secret[:]...)
	b = binary.LittleEndian.AppendUint64(b, uint64(k.since)) //nolint:gosec // read back as it is
	for _, f := range []*bloom{k.now, k.old} {
		for _, w := range f.words {
			b = binary.LittleEndian.AppendUint64(b, w)
		}
	}
	sum := sha256.Sum256(b[from:])
	return append(b, sum[:]...), nil
}

// UnmarshalBinary takes in what AppendBinary told, before the first request. If
// that is damaged, from the future, or knows more clients than it could have
// been told of, it changes nothing.
func (k *Clients) UnmarshalBinary(data []byte) error {
	if len(data) != savedSize || data[0] != version {
		return errSaved
	}
	body, sum := data[:savedSize-sha256.Size], data[savedSize-sha256.Size:]
	since := int64(binary.LittleEndian.Uint64(data[17:])) //nolint:gosec // as it was written
	if sha256.Sum256(body) != [sha256.Size]byte(sum) || since < 0 || since > k.epoch.Unix()+generation {
		return errSaved
	}
	now, old := new(bloom), new(bloom)
	body = body[headSize:]
	for _, f := range []*bloom{now, old} {
		for i := range f.words {
			f.words[i] = binary.LittleEndian.Uint64(body[8*i:])
			f.set += bits.OnesCount64(f.words[i])
		}
		if f.set >= bloomFull+bloomHashes {
			return errSaved
		}
		body = body[bloomBits/8:]
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	copy(k.secret[:], data[1:])
	k.since, k.now, k.old = since, now, old
	return nil
}
