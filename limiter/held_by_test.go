package limiter

import (
	"testing"

	"tempomat/limiter/account"
)

// TestWhatHoldsTooMuch: of eleven workers an address may hold five, and strangers as many; but one that computes beside a free
// CPU goes all the same, whether it waits for a second beside that or not.
func TestWhatHoldsTooMuch(t *testing.T) {
	type keys [2]struct{ holds int32 }
	for name, x := range map[string]struct {
		level   level
		idle    float64
		probe   bool
		unsure  bool
		keys    keys
		strange int // workers that strangers hold; above 0 the request is one, if it is not known
		known   bool
		compute int   // that are not short
		bad     int32 // that its client misjudged
		badAll  int
		ahead   bool
		want    Barrier
		key     int
	}{
		"nothing is held":                 {level: waitsAt(3), idle: 9},
		"four":                            {level: waitsAt(3), idle: 9, keys: keys{{holds: 4}}},
		"five":                            {level: waitsAt(3), idle: 9, keys: keys{{holds: 5}}, want: KeyHolds},
		"its network holds seven":         {level: waitsAt(3), idle: 9, keys: keys{1: {holds: 7}}},
		"its network holds eight":         {level: waitsAt(3), idle: 9, keys: keys{1: {holds: 8}}, want: KeyHolds, key: 1},
		"strangers hold four":             {level: waitsAt(3), idle: 9, strange: 4},
		"strangers hold five":             {level: waitsAt(3), idle: 9, strange: 5, want: StrangersHold},
		"but it computes, and holds none": {level: 3, strange: 5},
		"it computes, and idles a second": {level: 3, idle: 1.1, strange: 5},
		"beside one that computes":        {level: 3, strange: 5, compute: 1},
		"beside one for each CPU":         {level: 3, strange: 5, compute: 2, want: StrangersHold},
		"beside much longer ones":         {level: 2, strange: 5, compute: 2},
		"it holds one for a second":       {level: waitsAt(3), idle: patience.Seconds(), strange: 5, want: StrangersHold},
		"nobody knows what it costs":      {level: fresh, strange: 5, want: StrangersHold},
		"it may be dear":                  {level: 3, unsure: true, strange: 5},
		"it may, and one computes":        {level: 3, unsure: true, strange: 5, compute: 1, want: StrangersHold},
		"it may, and strangers hold ten":  {level: 3, unsure: true, strange: 10},
		"it may, and they hold eleven":    {level: 3, unsure: true, strange: 11, want: StrangersHold},
		"it may, and holds one":           {level: 3, unsure: true, strange: 5, keys: keys{{holds: 1}}, want: StrangersHold},
		"strangers do, and it is known":   {level: waitsAt(3), idle: 9, strange: 5, known: true},
		"it computes, and holds one":      {level: 3, strange: 5, keys: keys{{holds: 1}}, want: StrangersHold},
		"a short one of who holds seven":  {level: 0, keys: keys{{holds: 7}}},
		"a short one of who holds eight":  {level: 0, keys: keys{{holds: 8}}, want: KeyHolds},
		"its network holds ten":           {level: 0, keys: keys{1: {holds: 10}}},
		"its network holds eleven":        {level: 0, keys: keys{1: {holds: 11}}, want: KeyHolds, key: 1},
		"it is tried, with five held":     {level: fresh, probe: true, keys: keys{{holds: 5}}},
		"it is not tried, with five held": {level: fresh, keys: keys{{holds: 5}}, want: KeyHolds},
		"its client misjudged one":        {level: 0, bad: 1},
		"and is ahead":                    {level: 0, bad: 1, ahead: true, want: Misjudged},
		"four are misjudged, it is ahead": {level: 0, badAll: 4, ahead: true},
		"five are misjudged":              {level: 0, badAll: 5},
		"five, and it is ahead":           {level: 0, badAll: 5, ahead: true, want: Misjudged},
		"five, and it holds a worker":     {level: 0, badAll: 5, keys: keys{{holds: 1}}, want: Misjudged},
	} {
		g := shaped()
		r := &Ticket{request: request{likelyIdle: x.idle, sure: x.level != fresh && !x.unsure}, charge: charge{n: 2}, queueEntry: queueEntry{level: x.level, site: &g.home, client: &client{misjudged: x.bad}, overShare: x.ahead}}
		for i, part := range []float32{0.5, 0.75} {
			r.reservations[i] = reservation{Bucket: &bucket{Value: keyAtGate{holds: x.keys[i].holds}}, Terms: &account.Terms{Workers: part}}
		}
		r.stranger, g.home.strangerLong, g.home.misjudged.known = x.strange > 0 && !x.known, x.strange, x.badAll
		g.load.computing[4] = x.compute
		if by, key := g.heldBy(r, x.probe); by != x.want || key != x.key || g.mayHold(r, x.probe) != (x.want == nothing) {
			t.Errorf("%s: barrier %d of key %d, want %d of %d", name, by, key, x.want, x.key)
		}
		for i := range r.reservations {
			r.reservations[i].Terms = new(account.Terms) // any number
		}
		if by, _ := g.heldBy(r, x.probe); by == KeyHolds {
			t.Errorf("%s: a class without a part holds too much", name)
		}
	}
}

// TestWhoseDoingItIs: who waits for its own requests, or is ahead of its share, waits by its own doing.
func TestWhoseDoingItIs(t *testing.T) {
	g := shaped()
	r := &Ticket{request: request{sure: true}, charge: charge{n: 1}, queueEntry: queueEntry{level: 3, site: &g.home, client: new(client), flow: new(flow)}}
	r.reservations[0] = reservation{Bucket: new(bucket), Terms: &account.Terms{Workers: 0.5}}
	expect := func(what string, want bool) {
		t.Helper()
		if g.isOwnDoing(0, r) != want {
			t.Errorf("%s: its own doing: %t", what, !want)
		}
	}
	expect("it stands behind its own", true)
	g.home.queues[3].underShare.push(r)
	expect("others go first", false)
	if r.overShare = true; g.load.computing[0] == 0 {
		g.load.computing[0] = 2
	}
	expect("it is ahead", true)
	r.stranger, r.likelyIdle = true, 60
	expect("strangers are", false)
	r.stranger, r.overShare, r.likelyIdle, r.level = false, false, 9, waitsAt(3)
	r.reservations[0].Bucket.Value.holds = 5
	expect("its client holds its part", true)
	r.n, r.reservations[1] = 2, r.reservations[0]
	r.reservations[0] = reservation{Bucket: new(bucket), Terms: &account.Terms{Workers: 0.5}}
	expect("its network holds that", false)
	r.n, r.overShare, r.reservations[1].Bucket.Value.holds = 1, true, 0
	r.overShare = false
	r.n, r.level, r.likelyIdle = 1, 0, 0
	g.home.misjudged.known, r.reservations[0].Bucket.Value.holds = 5, 1
	expect("others misjudged", false)
	r.client.misjudged = 1
	expect("its client did, too", true)
}

// TestPartsBindOnceWorkersAreShort: while many are free beside one more, whose part of them is used up
// waits for nothing; while it is not known that there are few, either.
func TestPartsBindOnceWorkersAreShort(t *testing.T) {
	for name, x := range map[string]struct {
		workers, busy int
		known         bool
		want          Barrier
	}{
		"any number":               {16, 12, false, nothing},
		"fifteen more are free":    {150, 134, true, nothing},
		"fourteen more":            {150, 135, true, StrangersHold},
		"few workers are not":      {16, 1, true, StrangersHold},
		"but for the first of all": {16, 0, true, nothing},
	} {
		g := shaped()
		g.workers.n, g.workers.seen = x.workers, x.known
		g.shape()
		g.busy, g.home.strangerLong = x.busy, 75
		r := &Ticket{queueEntry: queueEntry{level: waitsAt(4), site: &g.home, client: new(client)}}
		r.stranger, r.likelyIdle = true, 60
		if got, _ := g.heldBy(r, false); got != x.want {
			t.Errorf("%s: barrier %d, want %d", name, got, x.want)
		}
	}
}
