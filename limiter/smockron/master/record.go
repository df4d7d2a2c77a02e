package master

import (
	"slices"
	"strconv"
	"strings"

	"tempomat/limiter/smockron"
)

// What the states of an identifier's rules look like in a store: one after the
// other with a bar between, in decimal. Of a single bucket rule it is the number
// that the first master keeps, so that either can go on where the other stopped.

const between = "|"

// appendStates formats the states of a domain's rules.
func appendStates(b []byte, rules []Rule, states []state) []byte {
	for i := range rules {
		if i > 0 {
			b = append(b, between...)
		}
		b = states[i].append(b, rules[i].Kind)
	}
	return b
}

func (s *state) append(b []byte, k Kind) []byte {
	switch k {
	case Credit:
		b = append(strconv.AppendInt(b, s.at, 10), ' ')
		return strconv.AppendFloat(b, s.level, 'f', 3, 64)
	case History:
		for i := range s.times {
			if i > 0 {
				b = append(b, ' ')
			}
			b = strconv.AppendInt(b, s.times[(s.oldest+i)%len(s.times)], 10)
		}
		return b
	case Bucket:
	}
	return strconv.AppendInt(b, s.at, 10)
}

// mergeStates takes in what a store knows of an identifier, as far as it is
// readable and says more than the states do: merging the same again, or in another
// order, changes nothing.
func mergeStates(text string, rules []Rule, states []state, now int64) {
	parts := strings.Split(text, between)
	if len(parts) != len(rules) {
		return // other rules wrote it
	}
	for i := range rules {
		states[i].merge(parts[i], &rules[i], now)
	}
}

func (s *state) merge(text string, r *Rule, now int64) {
	words := strings.Fields(text)
	switch {
	case len(words) == 0:
	case r.Kind == History:
		s.mergeHistory(words, r)
	case r.Kind == Credit && len(words) == 2:
		s.mergeCredit(words, r, now)
	case r.Kind == Bucket && len(words) == 1:
		at, err := smockron.ParseTime([]byte(words[0]))
		if err != nil || s.expires > 0 && at <= s.at {
			return
		}
		s.at = at
		s.expires = max(s.expires, min(at, now)+r.Burst.Milliseconds())
	}
}

func (s *state) mergeCredit(words []string, r *Rule, now int64) {
	at, err := smockron.ParseTime([]byte(words[0]))
	level, bad := strconv.ParseFloat(words[1], 64)
	if err != nil || bad != nil || level != level || level > ms(r.Burst) || at > now {
		return
	}
	r.refill(s, now, 0)
	if level += r.CPUs * float64(now-at); level < s.level {
		s.level = level
		s.expires = now + int64((ms(r.Burst)-level)/r.CPUs) + 1
	}
}

// mergeHistory puts the times that the store knows before those of this life. It
// is for the first look at an identifier.
func (s *state) mergeHistory(words []string, r *Rule) {
	size := r.requests()
	var all []int64
	for _, word := range words {
		if t, err := smockron.ParseTime([]byte(word)); err == nil && !s.has(t) {
			all = append(all, t)
			s.expires = max(s.expires, t+r.Burst.Milliseconds())
		}
	}
	for i := range s.times {
		all = append(all, s.times[(s.oldest+i)%len(s.times)])
	}
	s.times, s.oldest = all[max(0, len(all)-size):], 0
}

func (s *state) has(t int64) bool {
	return slices.Contains(s.times, t)
}
