package standing

import (
	"encoding/binary"
	"errors"
	"slices"

	"tempomat/classify"
)

// The form of what survives a restart, little-endian: a version, the secret, and
// four lists, each with its length before it: sessions, their cookies, cookies that
// did not come back yet, and visitors.
const standingVersion = 2

type savedSession struct {
	ID            uint32
	Home, Visitor uint64
	Moves         int64
}

type savedCookie struct {
	Of    uint32 // which of the sessions
	Value uint64
}

type savedHanded struct {
	Value           uint64
	ID, Network, To uint32
}

type savedVisitor struct {
	First, Last, AttestedUntil int64
	Hash                       uint64
	_                          [6]byte // of an earlier version
	Attested                   float32
}

var (
	errStanding = errors.New("not what a Judge of this version remembers")
	errSecret   = errors.New("hashed before coordination.secret was given, or with another one")
)

// AppendBinary appends what is to survive a restart: the sessions, the cookies that
// were given, and the visitors that are vouched for. Nobody's name is in it.
func (j *Judge) AppendBinary(b []byte) ([]byte, error) {
	b = append(append(b, standingVersion), j.secret[:]...)
	sessions, cookies := j.sessions.save()
	b = appendList(appendList(b, sessions), cookies)
	b = appendList(b, j.handed.save())
	var visitors []savedVisitor
	j.visitors.each(func(v *visitor) {
		if v.attested > 0 {
			visitors = append(visitors, savedVisitor{First: v.first, Last: v.last, AttestedUntil: v.attestedUntil, Hash: v.hash, Attested: v.attested})
		}
	})
	return appendList(b, visitors), nil
}

// save returns the sessions, those that were used least recently first, and their cookies.
func (s *sessions) save() (all []savedSession, cookies []savedCookie) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, e := range s.all.Values() {
		all = append(all, savedSession{e.id, e.home, e.visitor, e.moves})
		for _, value := range e.values {
			if value != 0 {
				cookies = append(cookies, savedCookie{uint32(i), value})
			}
		}
	}
	return all, cookies
}

// save returns all cookies, of each network those first that were given first.
func (h *handedOut) save() (all []savedHanded) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range slices.Concat(h.of.Values()...) {
		all = append(all, savedHanded{e.value, e.id, e.network, e.to})
	}
	return all
}

func appendList[T any](b []byte, list []T) []byte {
	b = binary.LittleEndian.AppendUint32(b, uint32(len(list))) //nolint:gosec // all are bounded
	b, _ = binary.Append(b, binary.LittleEndian, list)         // it fails for types without a fixed size only
	return b
}

// UnmarshalBinary takes in what AppendBinary told, before the first request. If that is
// damaged, of another version, or by another secret than the fleet's, it changes nothing.
func (j *Judge) UnmarshalBinary(data []byte) error {
	const head = 1 + len(j.secret)
	if len(data) < head || data[0] != standingVersion {
		return errStanding
	}
	rest := data[head:]
	sessions, rest := cutList[savedSession](rest, mostSessions)
	cookies, rest := cutList[savedCookie](rest, mostSessions*valuesOfSession)
	given, rest := cutList[savedHanded](rest, mostHanded)
	visitors, rest := cutList[savedVisitor](rest, mostVisitors)
	if rest == nil || len(rest) > 0 {
		return errStanding
	}
	if j.exchange != nil && [16]byte(data[1:]) != j.secret {
		return errSecret
	}
	copy(j.secret[:], data[1:])
	j.sessions.take(sessions, cookies)
	for _, e := range given {
		if e.Value != 0 {
			j.handed.put(handed{e.Value, e.ID | 1, e.Network, e.To})
		}
	}
	for _, e := range visitors {
		if !(e.Attested >= 0 && e.Attested <= classify.MostStanding) {
			e.Attested = 0
		}
		j.visitors.with(e.Hash, e.Last, func(v *visitor) {
			v.first, v.last, v.attestedUntil, v.attested = e.First, e.Last, e.AttestedUntil, e.Attested
		})
	}
	return nil
}

// take takes in sessions and their cookies. None counts at its address yet.
func (s *sessions) take(all []savedSession, cookies []savedCookie) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range all {
		s.all.Remove(e.ID | 1) // with its cookies
		s.all.Add(e.ID|1, &session{id: e.ID | 1, home: e.Home, visitor: e.Visitor, moves: e.Moves})
	}
	for _, c := range cookies {
		if int(c.Of) >= len(all) || c.Value == 0 {
			continue
		}
		if e, ok := s.all.Peek(all[c.Of].ID | 1); ok {
			s.learnLocked(e, c.Value, 0)
		}
	}
}

// cutList reads a list. The rest is nil if the list is shorter than announced, or the one before it was.
func cutList[T any](data []byte, most int) (list []T, rest []byte) {
	if len(data) < 4 {
		return nil, nil
	}
	n := int(binary.LittleEndian.Uint32(data))
	if n > most || len(data[4:]) < n*binary.Size(new(T)) {
		return nil, nil
	}
	list = make([]T, n)
	read, err := binary.Decode(data[4:], binary.LittleEndian, list)
	if err != nil {
		return nil, nil
	}
	return list, data[4+read:]
}
