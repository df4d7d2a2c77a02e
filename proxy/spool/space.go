package spool

const (
	// lookEvery is how many bytes are written between two looks at the file
	// system. Counting bytes needs no clock, and who writes little cannot fill it.
	lookEvery = 64 << 20
	// lookAgain is how many times room is refused after a look that found none,
	// until there is another: a system call for each would be waste.
	lookAgain = 64
	// leftAlone is the part of the file system, one in so many, that is never
	// used: others need room to work, and to log that there is little.
	leftAlone = 10
)

// space is what is known of the file system of the temporary files.
type space struct {
	half    int64    // of what was free at the first look; 0: none has been taken
	unseen  int64    // bytes that may be written before the next look
	refused int      // requests to refuse before the next look
	why     shortage // they are refused for
}

// diskLimit is the most bytes in files. s.mu is held.
func (s *Store) diskLimit() (int64, shortage) {
	if s.limits.Disk > 0 {
		return s.limits.Disk, noDisk
	}
	if s.space.half == 0 {
		if short := s.space.look(s, 0); short != none {
			return 0, short
		}
	}
	return s.space.half, noDisk
}

// take takes n bytes of what the file system has to spare. s.mu is held.
func (v *space) take(s *Store, n int64) shortage {
	if v.unseen < n {
		if short := v.look(s, n); short != none {
			return short
		}
	}
	v.unseen -= n
	return none
}

// look asks the file system whether it has n bytes to spare.
func (v *space) look(s *Store, n int64) shortage {
	if v.refused > 0 {
		v.refused--
		return v.why
	}
	free, total, err := s.free(s.limits.Directory)
	spare := free - total/leftAlone
	switch {
	case err != nil:
		v.refused, v.why = lookAgain, failure
		return failure
	case spare <= 0 || spare < n:
		v.refused, v.why = lookAgain, noDisk
		return noDisk
	}
	if v.half == 0 {
		v.half = max(1, (s.used[disk]+free)/2)
	}
	v.unseen = min(spare, lookEvery)
	return none
}
