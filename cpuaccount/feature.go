package cpuaccount

// asker is the client that asks or got an answer, and when.
type asker struct {
	from  uint32 // the witness
	known bool
	at    int64 // Unix milliseconds
}

// featureRecord is what is remembered of all requests that have something in common:
// a shape, a URL, or a parameter.
type featureRecord struct {
	// The fields that are read often are in one cache line.
	all         estimate
	known       estimate // of answers to known people alone
	from        witnesses
	uncertainty float32 // of all
	over        overrun

	hash      uint64
	knownFrom witnesses
	asked     uint32   // since it came; what it took over does not count
	_         [40]byte // two cache lines in all
}

// view is what a feature shows for one client.
type view struct {
	estimate
	believed    bool
	uncertainty float32 // of all answers, because those of known people alone don't show how similar all are
	over        float32 // what a request that was guessed far too low has cost, in seconds
}

// show fills in the view for one client: from known people's answers, if there are enough of
// several people. Answers to crawlers show little of what a newcomer's page will cost, even if
// it has the same shape.
func (f *featureRecord) show(v *view, by *asker) {
	if v.estimate = f.all; f.known.several {
		v.estimate = f.known
	}
	v.believed = v.several || f.all.n >= least && f.from.convince(by.from)
	v.uncertainty = f.uncertainty
	if f.over.cost != 0 && (f.over.known || !by.known || !f.known.several) {
		v.over = float32(f.over.left(by.at))
	}
}

// learn takes in what an answer cost, and how long it was idle.
func (f *featureRecord) learn(by *asker, x, idle float64) {
	if f.over.cost != 0 {
		told := &f.all
		if f.known.several {
			told = &f.known
		}
		f.over.answered(by, !beyond(x, told.cost()))
	}
	f.all.learn(x, idle)
	f.from.add(by.from)
	f.all.several = f.from.several() // and so the answers are as many at least
	f.uncertainty = f.all.uncertainty()
	if by.known {
		f.known.learn(x, idle)
		f.knownFrom.add(by.from)
		f.known.several = f.knownFrom.several()
	}
}

// overrun is the cost of a request whose guess was far too low. Until similar requests cost
// what was guessed, or for some time, the guess is in doubt for all clients with similar
// requests. A stranger's overrun doesn't affect known people; otherwise one stranger could put
// all of their guesses in doubt by making expensive requests for what they read.
type overrun struct {
	at    int64   // Unix milliseconds
	cost  float32 // seconds; 0: none
	known bool    // it was a known client's
}

func (o *overrun) left(at int64) float64 { return float64(o.cost) * faded(o.at, at) }

// told takes in what a request that still runs has cost.
func (o *overrun) told(by *asker, x float64) {
	if o.cost == 0 || o.left(by.at) <= x {
		*o = overrun{cost: float32(x), known: by.known, at: by.at}
	}
}

// answered takes in an answer. Known people's say nothing of strangers' requests.
func (o *overrun) answered(by *asker, asGuessed bool) {
	if !asGuessed || by.known && !o.known {
		return
	}
	if o.cost /= 2; o.left(by.at) < floor.Seconds() {
		*o = overrun{}
	}
}
