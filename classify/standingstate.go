package classify

import (
	"encoding/binary"
	"errors"
	"math"
)

// The form of what survives a restart, little-endian: a version, the secret, the
// number of sessions and each of them, the number of visitors and each of them.
const (
	standingVersion = 1
	sessionSize     = 8 + 4 + 1
	visitorSize     = 8 + 8 + 8 + 8 + 4 + 2 + 4
	maxSessionsKept = 2 * sessionShards * perGeneration
)

var errStanding = errors.New("not what a Standing of this version remembers")

// AppendBinary appends what is to survive a restart: the sessions, and the
// visitors that have come for a while or are vouched for. Nobody's name is in it.
func (s *Standing) AppendBinary(b []byte) ([]byte, error) {
	le := binary.LittleEndian
	b = append(append(b, standingVersion), s.secret[:]...)
	at, n := len(b), uint32(0)
	b = le.AppendUint32(b, 0)
	s.sessions.each(func(value uint64, e session) {
		if n == maxSessionsKept {
			return
		}
		n++
		b = le.AppendUint32(le.AppendUint64(b, value), e.id)
		if e.proven {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	})
	le.PutUint32(b[at:], n)
	at, n = len(b), 0
	b = le.AppendUint32(b, 0)
	s.visitors.each(func(v *visitor) {
		if v.hours == 0 && v.attested == 0 {
			return
		}
		n++
		for _, x := range [...]int64{v.first, v.last, v.attestedUntil} {
			b = le.AppendUint64(b, uint64(x)) //nolint:gosec // read back as it is
		}
		b = le.AppendUint64(b, v.hash)
		b = le.AppendUint32(b, uint32(v.hour)) //nolint:gosec // read back as it is
		b = le.AppendUint16(b, v.hours)
		b = le.AppendUint32(b, math.Float32bits(v.attested))
	})
	le.PutUint32(b[at:], n)
	return b, nil
}

// UnmarshalBinary takes in what AppendBinary told, before the first request. If
// that is damaged it changes nothing.
func (s *Standing) UnmarshalBinary(data []byte) error {
	sessions, visitors, ok := cutStanding(data)
	if !ok {
		return errStanding
	}
	le := binary.LittleEndian
	copy(s.secret[:], data[1:])
	for ; len(sessions) > 0; sessions = sessions[sessionSize:] {
		s.sessions.put(le.Uint64(sessions), session{id: le.Uint32(sessions[8:]), proven: sessions[12] == 1})
	}
	for ; len(visitors) > 0; visitors = visitors[visitorSize:] {
		first, last := int64(le.Uint64(visitors)), int64(le.Uint64(visitors[8:])) //nolint:gosec // as it was written
		until := int64(le.Uint64(visitors[16:]))                                  //nolint:gosec // as it was written
		attested := math.Float32frombits(le.Uint32(visitors[38:]))
		if !(attested >= 0 && attested <= mostStanding) {
			attested = 0
		}
		s.visitors.with(le.Uint64(visitors[24:]), last, func(v *visitor) {
			v.first, v.last, v.attestedUntil = first, last, until
			v.hour, v.hours = int32(le.Uint32(visitors[32:])), le.Uint16(visitors[36:]) //nolint:gosec // as it was written
			v.attested = attested
		})
	}
	return nil
}

// cutStanding finds the parts, if all are as long as they say.
func cutStanding(data []byte) (sessions, visitors []byte, ok bool) {
	const head = 1 + 16
	if len(data) < head || data[0] != standingVersion {
		return nil, nil, false
	}
	sessions, rest, ok := cutList(data[head:], sessionSize, maxSessionsKept)
	if !ok {
		return nil, nil, false
	}
	visitors, rest, ok = cutList(rest, visitorSize, visitorSets*visitorWays)
	return sessions, visitors, ok && len(rest) == 0
}

func cutList(data []byte, size, most int) (list, rest []byte, ok bool) {
	if len(data) < 4 {
		return nil, nil, false
	}
	n := int(binary.LittleEndian.Uint32(data))
	if data = data[4:]; n > most || len(data) < n*size {
		return nil, nil, false
	}
	return data[:n*size], data[n*size:], true
}
