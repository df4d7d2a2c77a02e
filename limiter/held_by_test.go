package limiter

import (
	"cmp"
	"testing"

	"tempomat/internal/testkit"
	"tempomat/limiter/account"
)

// TestHoldingTooMuch: of eleven workers, an address may hold five, not counting requests that end soon while any of
// the eleven is free. Strangers together may also hold five with long requests. With requests that end soon, they
// may hold all but one of the sixteen workers and those that known clients recently held. A request that would
// compute next to a free CPU starts in any case.
func TestHoldingTooMuch(t *testing.T) {
	type keys [2]struct{ holds, brief int32 }
	for name, x := range map[string]struct {
		level   level
		idle    float64
		probe   bool
		unsure  bool
		keys    keys
		strange int // workers that strangers hold; if it is above 0 and known isn't set, the request is a stranger's
		known   bool
		recent  int   // workers that known clients recently held
		compute int   // requests that compute and aren't short
		long    int   // requests that end soon, but aren't short
		cpus    int   // 0: two
		bad     int32 // misjudged requests of its client
		badAll  int
		ahead   bool
		busy    int // 0: one
		want    Barrier
		key     int
	}{
		"nothing is held":                    {level: waitsAt(3), idle: 9},
		"four":                               {level: waitsAt(3), idle: 9, keys: keys{{holds: 4}}},
		"five":                               {level: waitsAt(3), idle: 9, keys: keys{{holds: 5}}, want: KeyHolds},
		"six, two of which end soon":         {level: waitsAt(4), idle: 9, keys: keys{{holds: 6, brief: 2}}},
		"six, one of which ends soon":        {level: waitsAt(3), idle: 9, keys: keys{{holds: 6, brief: 1}}, want: KeyHolds},
		"ten that end soon":                  {level: waitsAt(3), idle: 9, keys: keys{{holds: 10, brief: 10}}, busy: 10},
		"fourteen that end soon":             {level: waitsAt(3), idle: 9, keys: keys{{holds: 14, brief: 14}}, busy: 14},
		"only one worker is free":            {level: waitsAt(3), idle: 9, keys: keys{{holds: 5, brief: 5}}, busy: 15, want: KeyHolds},
		"the same, sixteen CPUs":             {level: 2, idle: 0, keys: keys{{holds: 5, brief: 5}}, busy: 15, cpus: 16},
		"the same, fifteen CPUs":             {level: 2, idle: 0, keys: keys{{holds: 5, brief: 5}}, busy: 15, cpus: 15, want: KeyHolds},
		"longer, only kept ones are free":    {level: waitsAt(4), idle: 9, keys: keys{{holds: 5, brief: 5}}, busy: 11, want: KeyHolds},
		"its network holds seven":            {level: waitsAt(3), idle: 9, keys: keys{1: {holds: 7}}},
		"its network holds eight":            {level: waitsAt(3), idle: 9, keys: keys{1: {holds: 8}}, want: KeyHolds, key: 1},
		"strangers hold four":                {level: waitsAt(4), idle: 9, strange: 4},
		"strangers hold five":                {level: waitsAt(4), idle: 9, strange: 5, want: StrangersHold},
		"ends soon, strangers hold fourteen": {level: waitsAt(3), strange: 14},
		"ends soon, strangers hold fifteen":  {level: waitsAt(3), strange: 15, want: StrangersHold},
		"ends soon, strangers hold eleven, known clients four": {level: waitsAt(3), strange: 11, recent: 4, want: StrangersHold},
		"ends soon, strangers hold ten, known clients four":    {level: waitsAt(3), strange: 10, recent: 4},
		"ends soon, strangers hold five, known clients eleven": {level: waitsAt(3), strange: 5, recent: 11, want: StrangersHold},
		"computes, client holds none":                          {level: 3, strange: 5},
		"computes, and idles for a second":                     {level: 3, idle: 1.1, strange: 5},
		"one CPU is busy":                                      {level: 4, strange: 5, compute: 1},
		"both CPUs are busy":                                   {level: 4, strange: 5, compute: 2, want: StrangersHold},
		"both CPUs run longer ones":                            {level: 3, strange: 5, compute: 2},
		"only holds a worker":                                  {level: waitsAt(4), strange: 5, compute: 1, want: StrangersHold},
		"unknown cost":                                         {level: fresh, strange: 14},
		"unknown cost, strangers hold fifteen":                 {level: fresh, strange: 15, want: StrangersHold},
		"may be expensive":                                     {level: 3, unsure: true, strange: 5},
		"may be expensive, one CPU is busy":                    {level: 4, unsure: true, strange: 5, compute: 1, want: StrangersHold},
		"may be expensive, one of four CPUs is busy":           {level: 4, unsure: true, strange: 5, compute: 1, cpus: 4},
		"may be expensive, two of four CPUs are busy":          {level: 4, unsure: true, strange: 5, compute: 2, cpus: 4, want: StrangersHold},
		"may be expensive, strangers hold ten":                 {level: 3, unsure: true, strange: 10},
		"may be expensive, strangers hold eleven":              {level: 3, unsure: true, strange: 11, want: StrangersHold},
		"may be expensive, client holds one":                   {level: 3, unsure: true, strange: 5, keys: keys{{holds: 1}}, want: StrangersHold},
		"strangers hold five, client is known":                 {level: waitsAt(3), idle: 9, strange: 5, known: true},
		"computes, client holds one":                           {level: 4, strange: 5, keys: keys{{holds: 1}}, want: StrangersHold},
		"short, client holds seven":                            {level: 0, keys: keys{{holds: 7}}},
		"short, client holds eight":                            {level: 0, keys: keys{{holds: 8}}, want: KeyHolds},
		"short, client holds eleven briefly":                   {level: 0, keys: keys{{holds: 11, brief: 11}}, busy: 11},
		"short, network holds ten":                             {level: 0, keys: keys{1: {holds: 10}}},
		"short, network holds eleven":                          {level: 0, keys: keys{1: {holds: 11}}, want: KeyHolds, key: 1},
		"probe, client holds five":                             {level: fresh, probe: true, keys: keys{{holds: 5}}},
		"no probe, client holds five":                          {level: fresh, keys: keys{{holds: 5}}, want: KeyHolds},
		"client has a misjudged request":                       {level: 0, bad: 1},
		"client has a misjudged request and is over its share": {level: 0, bad: 1, ahead: true, compute: 1, want: Misjudged},
		"client has a misjudged request, all else is idle":     {level: 0, bad: 1, ahead: true},
		"four misjudged, client over its share":                {level: 0, badAll: 4, ahead: true},
		"five misjudged":                                       {level: 0, badAll: 5},
		"five misjudged, client over its share":                {level: 0, badAll: 5, ahead: true, long: 15, want: Misjudged},
		"five misjudged, workers are free":                     {level: 0, badAll: 5, ahead: true, long: 10},
		"five misjudged, client holds a worker":                {level: 0, badAll: 5, long: 15, keys: keys{{holds: 1}}, want: Misjudged},
	} {
		g := shaped()
		g.limits.leastSlots, g.limits.cpus, g.busy = cmp.Or(x.cpus, 2), cmp.Or(x.cpus, 2), cmp.Or(x.busy, 1)
		r := &Ticket{request: request{likelyIdle: x.idle, sure: x.level != fresh && !x.unsure}, charge: charge{n: 2}, queueEntry: queueEntry{level: x.level, site: &g.home, client: &client{misjudged: x.bad}, overShare: x.ahead}}
		if x.unsure {
			r.running = 1
		}
		for i, part := range []float32{0.5, 0.75} {
			r.reservations[i] = reservation{Bucket: &bucket{Value: keyAtGate{holds: x.keys[i].holds, brief: x.keys[i].brief}}, Terms: &account.Terms{Workers: part}}
		}
		r.stranger, g.home.strangerLong, g.home.misjudged.known = x.strange > 0 && !x.known, x.strange, x.badAll
		g.home.strangerHeld, g.knownUse.before = x.strange, x.recent
		g.load.computing[4], g.load.held[2] = x.compute, x.long
		if by, key := g.heldBy(r, x.probe); by != x.want || key != x.key || g.mayHold(r, x.probe) != (x.want == nothing) {
			t.Errorf("%s: barrier %d of key %d, want %d of %d", name, by, key, x.want, x.key)
		}
		for i := range r.reservations {
			r.reservations[i].Terms = new(account.Terms) // the key may hold any number
		}
		if by, _ := g.heldBy(r, x.probe); by == KeyHolds {
			t.Errorf("%s: a key of a class without a limit holds too many", name)
		}
	}
}

// TestIsOwnDoing: a request waits because of its own client if it waits for that client's requests, or if
// the client is over its share.
func TestIsOwnDoing(t *testing.T) {
	g := shaped()
	r := &Ticket{request: request{sure: true}, charge: charge{n: 1}, queueEntry: queueEntry{level: 3, site: &g.home, client: new(client), flow: new(flow)}}
	r.reservations[0] = reservation{Bucket: new(bucket), Terms: &account.Terms{Workers: 0.5}}
	expect := func(what string, want bool) {
		t.Helper()
		testkit.Same(t, want, g.isOwnDoing(0, r), "%s: isOwnDoing", what)
	}
	expect("it waits behind its own client's requests", true)
	g.home.queues[3].underShare.push(r)
	expect("other clients' requests go first", false)
	r.overShare, g.load.computing[0] = true, 2
	expect("its client is over its share", true)
	r.stranger, r.likelyIdle = true, 60
	expect("strangers are", false)
	r.stranger, r.overShare, r.likelyIdle, r.level = false, false, 9, waitsAt(3)
	r.reservations[0].Bucket.Value.holds = 5
	expect("its client holds its part", true)
	r.n, r.reservations[1] = 2, r.reservations[0]
	r.reservations[0] = reservation{Bucket: new(bucket), Terms: &account.Terms{Workers: 0.5}}
	expect("its network holds its part", false)
	r.reservations[1].Bucket.Value.holds = 0
	r.n, r.level, r.likelyIdle = 1, 0, 0
	g.home.misjudged.known, g.load.held[2], r.reservations[0].Bucket.Value.holds = 5, 15, 1
	expect("others misjudged", false)
	r.client.misjudged = 1
	expect("its client also holds its part", true)
}

// TestPartsBindOnceWorkersAreShort: a request doesn't wait although its part of the workers is used up, if many
// workers would still be free. The same applies while the number of workers is unknown.
func TestPartsBindOnceWorkersAreShort(t *testing.T) {
	for name, x := range map[string]struct {
		workers, busy int
		known         bool
		want          Barrier
	}{
		"number of workers unknown":   {16, 12, false, nothing},
		"fifteen more would be free":  {150, 134, true, nothing},
		"fourteen more would be free": {150, 135, true, StrangersHold},
		"few workers, one busy":       {16, 1, true, StrangersHold},
		"few workers, none busy":      {16, 0, true, nothing},
	} {
		g := shaped()
		g.workers.n, g.workers.seen = x.workers, x.known
		g.shape()
		g.busy, g.home.strangerHeld = x.busy, 75
		r := &Ticket{queueEntry: queueEntry{level: waitsAt(4), site: &g.home, client: new(client)}}
		r.stranger, r.likelyIdle = true, 60
		if got, _ := g.heldBy(r, false); got != x.want {
			t.Errorf("%s: barrier %d, want %d", name, got, x.want)
		}
	}
}
