package standing

import (
	"bytes"
	"encoding/gob"
	"errors"
	"slices"

	"tempomat/classify"
)

// state is saved for a restart, as gob. Its only visitors are those for which the backend vouches. It contains
// no names or values of cookies, only hashes.
type state struct {
	Secret   [16]byte
	Sessions []savedSession // the least recently used first
	Handed   []savedHanded  // for each network, the oldest first
	Visitors []savedVisitor
}

type savedSession struct {
	ID            uint32
	Home, Visitor uint64
	Moves         int64
	Values        [valuesOfSession]uint64
}

type savedHanded struct {
	Value           uint64
	ID, Network, To uint32
}

type savedVisitor struct {
	First, Last, AttestedUntil int64
	Hash                       uint64
	Attested                   float32
}

var (
	errStanding = errors.New("not written by this version")
	errSecret   = errors.New("hashed before coordination.secret was set, or with a different secret")
)

// AppendBinary appends the state to be restored after a restart.
func (j *Judge) AppendBinary(b []byte) ([]byte, error) {
	s := state{Secret: j.secret, Sessions: j.sessions.save(), Handed: j.handed.save()}
	j.visitors.each(func(v *visitor) {
		if v.attested > 0 {
			s.Visitors = append(s.Visitors, savedVisitor{First: v.first, Last: v.last, AttestedUntil: v.attestedUntil, Hash: v.hash, Attested: v.attested})
		}
	})
	to := bytes.NewBuffer(b)
	err := gob.NewEncoder(to).Encode(&s)
	return to.Bytes(), err
}

func (s *sessions) save() (all []savedSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range s.all.Values() {
		all = append(all, savedSession{e.id, e.home, e.visitor, e.moves, e.values})
	}
	return all
}

func (h *handedOut) save() (all []savedHanded) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, e := range slices.Concat(h.of.Values()...) {
		all = append(all, savedHanded{e.value, e.id, e.network, e.to})
	}
	return all
}

// UnmarshalBinary restores what AppendBinary appended. Call it before the first request. If the data is
// damaged, of a different version, or hashed with a secret other than the fleet's, it returns an error and changes
// nothing.
func (j *Judge) UnmarshalBinary(data []byte) error {
	var s state
	from := bytes.NewReader(data)
	if gob.NewDecoder(from).Decode(&s) != nil || from.Len() > 0 ||
		len(s.Sessions) > mostSessions || len(s.Handed) > mostHanded || len(s.Visitors) > mostVisitors {
		return errStanding
	}
	if j.exchange != nil && s.Secret != j.secret {
		return errSecret
	}
	j.secret = s.Secret
	j.sessions.take(s.Sessions)
	for _, e := range s.Handed {
		if e.Value != 0 {
			j.handed.put(handed{e.Value, e.ID | 1, e.Network, e.To})
		}
	}
	for _, e := range s.Visitors {
		if !(e.Attested >= 0 && e.Attested <= classify.MostStanding) {
			e.Attested = 0
		}
		j.visitors.with(e.Hash, e.Last, func(v *visitor) {
			v.first, v.last, v.attestedUntil, v.attested = e.First, e.Last, e.AttestedUntil, e.Attested
		})
	}
	return nil
}

// take adds sessions with their cookies. None of them counts as in use at its address yet.
func (s *sessions) take(all []savedSession) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, saved := range all {
		e := &session{id: saved.ID | 1, home: saved.Home, visitor: saved.Visitor, moves: saved.Moves}
		s.all.Remove(e.id) // also removes the cookies of a session with the same id
		s.all.Add(e.id, e)
		for _, value := range saved.Values {
			if value != 0 {
				s.learnLocked(e, value, 0)
			}
		}
	}
}
