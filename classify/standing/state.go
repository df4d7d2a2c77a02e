package standing

import (
	"encoding/binary"
	"errors"
	"math"

	"tempomat/classify"
)

// The form of what survives a restart, little-endian: a version, the secret, and
// four lists, each with its length before it: sessions, their cookies, cookies that
// did not come back yet, and visitors.
const (
	standingVersion = 2
	sessionSize     = 4 + 8 + 8 + 8 // id, home, visitor, moves
	valueSize       = 4 + 8         // which of the sessions, the cookie
	handedSize      = 8 + 4 + 4 + 4 // cookie, id, network, address
	visitorSize     = 8 + 8 + 8 + 8 + 4 + 2 + 4
)

var (
	errStanding = errors.New("not what a Judge of this version remembers")
	errSecret   = errors.New("hashed before coordination.secret was given, or with another one")
)

// AppendBinary appends what is to survive a restart: the sessions, the cookies that
// were given, and the visitors that have come for a while or are vouched for. Nobody's
// name is in it.
func (j *Judge) AppendBinary(b []byte) ([]byte, error) {
	b = append(append(b, standingVersion), j.secret[:]...)
	b = j.appendSessions(b)
	le := binary.LittleEndian
	b = appendList(b, func(one func(...byte)) {
		j.handed.each(func(e handed) {
			var x [handedSize]byte
			le.PutUint64(x[:], e.value)
			le.PutUint32(x[8:], e.id)
			le.PutUint32(x[12:], e.network)
			le.PutUint32(x[16:], e.to)
			one(x[:]...)
		})
	})
	return appendList(b, func(one func(...byte)) {
		j.visitors.each(func(v *visitor) {
			if v.hours == 0 && v.attested == 0 {
				return
			}
			x := make([]byte, 0, visitorSize)
			for _, t := range [...]int64{v.first, v.last, v.attestedUntil} {
				x = le.AppendUint64(x, uint64(t)) //nolint:gosec // read back as it is
			}
			x = le.AppendUint64(x, v.hash)
			x = le.AppendUint32(x, uint32(v.hour)) //nolint:gosec // read back as it is
			x = le.AppendUint16(x, v.hours)
			one(le.AppendUint32(x, math.Float32bits(v.attested))...)
		})
	}), nil
}

// appendSessions appends the sessions and, the same ones, their cookies.
func (j *Judge) appendSessions(b []byte) []byte {
	le := binary.LittleEndian
	var values []byte
	n := uint32(0)
	b = appendList(b, func(one func(...byte)) {
		j.sessions.each(func(e *session) {
			var x [sessionSize]byte
			le.PutUint32(x[:], e.id)
			le.PutUint64(x[4:], e.home)
			le.PutUint64(x[12:], e.visitor)
			le.PutUint64(x[20:], uint64(e.moves)) //nolint:gosec // read back as it is
			one(x[:]...)
			for _, value := range e.values {
				if value != 0 {
					values = le.AppendUint64(le.AppendUint32(values, n), value)
				}
			}
			n++
		})
	})
	b = le.AppendUint32(b, uint32(len(values)/valueSize)) //nolint:gosec // mostSessions times valuesOfSession
	return append(b, values...)
}

// appendList appends a list, each of whose elements all gives to one.
func appendList(b []byte, all func(one func(...byte))) []byte {
	at, n := len(b), uint32(0)
	b = append(b, 0, 0, 0, 0)
	all(func(x ...byte) {
		n++
		b = append(b, x...)
	})
	binary.LittleEndian.PutUint32(b[at:], n)
	return b
}

// UnmarshalBinary takes in what AppendBinary told, before the first request. If that is
// damaged, of another version, or by another secret than the fleet's, it changes nothing.
func (j *Judge) UnmarshalBinary(data []byte) error {
	l, ok := cutStanding(data)
	if !ok {
		return errStanding
	}
	if j.exchange != nil && [16]byte(data[1:]) != j.secret {
		return errSecret
	}
	copy(j.secret[:], data[1:])
	j.takeSessions(l.sessions, l.values)
	le := binary.LittleEndian
	for x := l.handed; len(x) > 0; x = x[handedSize:] {
		if value := le.Uint64(x); value != 0 {
			j.handed.put(handed{value: value, id: le.Uint32(x[8:]) | 1, network: le.Uint32(x[12:]), to: le.Uint32(x[16:])})
		}
	}
	for x := l.visitors; len(x) > 0; x = x[visitorSize:] {
		first, last := int64(le.Uint64(x)), int64(le.Uint64(x[8:])) //nolint:gosec // as it was written
		until := int64(le.Uint64(x[16:]))                           //nolint:gosec // as it was written
		attested := math.Float32frombits(le.Uint32(x[38:]))
		if !(attested >= 0 && attested <= classify.MostStanding) {
			attested = 0
		}
		j.visitors.with(le.Uint64(x[24:]), last, func(v *visitor) {
			v.first, v.last, v.attestedUntil = first, last, until
			v.hour, v.hours = int32(le.Uint32(x[32:])), le.Uint16(x[36:]) //nolint:gosec // as it was written
			v.attested = attested
		})
	}
	return nil
}

// takeSessions takes in sessions and their cookies. None counts at its address yet.
func (j *Judge) takeSessions(sessions, values []byte) {
	le := binary.LittleEndian
	places := make([]session, 0, len(sessions)/sessionSize) // newer: their places
	for ; len(sessions) > 0; sessions = sessions[sessionSize:] {
		e := session{
			id: le.Uint32(sessions) | 1, home: le.Uint64(sessions[4:]), visitor: le.Uint64(sessions[12:]),
			moves: int64(le.Uint64(sessions[20:])), //nolint:gosec // as it was written
		}
		place := j.sessions.add(e)
		places = append(places, session{id: e.id, newer: place})
	}
	for ; len(values) > 0; values = values[valueSize:] {
		i, value := int(le.Uint32(values)), le.Uint64(values[4:])
		if i < len(places) && value != 0 {
			j.sessions.learn(places[i].newer, places[i].id, value, 0)
		}
	}
}

// standingLists are the lists of what a Judge remembers, in the bytes of a file.
type standingLists struct{ sessions, values, handed, visitors []byte }

// cutStanding finds the lists, if all are as long as they say.
func cutStanding(data []byte) (l standingLists, ok bool) {
	const head = 1 + 16
	if len(data) < head || data[0] != standingVersion {
		return l, false
	}
	type list struct {
		into       *[]byte
		size, most int
	}
	rest := data[head:]
	for _, list := range []list{
		{&l.sessions, sessionSize, mostSessions}, {&l.values, valueSize, mostSessions * valuesOfSession},
		{&l.handed, handedSize, handedSets * handedWays}, {&l.visitors, visitorSize, visitorSets * visitorWays},
	} {
		if *list.into, rest, ok = cutList(rest, list.size, list.most); !ok {
			return l, false
		}
	}
	return l, len(rest) == 0
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
