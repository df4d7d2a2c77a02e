package cpuaccount

// asker is the client that makes a request or received an answer.
type asker struct {
	from  uint32 // the witness of the client's address
	known bool
	at    int64 // time of the request or answer, in Unix milliseconds
}

// featureRecord stores the costs of all requests with a feature: a shape, a URL, or a parameter. The Estimator has one
// for each feature.
type featureRecord struct {
	// Fields that are read often are in one cache line.
	all         estimate
	known       estimate // of answers to known clients
	from        witnesses
	uncertainty float32 // of all
	over        overrun

	hash      uint64
	knownFrom witnesses
	asked     uint32   // requests since the feature was added, not counting those that it inherited
	_         [40]byte // two cache lines in total
}

// view is the part of a featureRecord that concerns a request of one client.
type view struct {
	estimate
	believed    bool
	uncertainty float32 // of all answers, because answers to known clients alone don't show how much all of them vary
	over        float32 // the cost in seconds of a request whose guess was far too low
}

// show fills in the view for one client. It uses the answers to known clients if enough of them went to
// several clients. Answers to crawlers show little about the cost of a newcomer's page, even if it has the
// same shape.
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

// mostExceptional is the largest cost, in seconds, with which an answer counts that costs far more than the answers
// before it. Many sites have one URL for short and long actions, for example WordPress. Without the limit, an import
// of 20 s at that URL would make the next dozens of short requests look long. Answers that always cost more than
// this reach their cost nevertheless, because each may exceed the guess by the factor rash, and the first few may
// cost anything.
const mostExceptional = 2

// learnUsual is learn for answers of several clients. After the first few, it counts an exceptional cost as less.
func (e *estimate) learnUsual(x, idle float64) {
	if most := max(mostExceptional, rash*e.cost()); e.n >= least && x > most {
		x, idle = most, idle*most/x
	}
	e.learn(x, idle)
}

// learn records the cost of an answered request and how long it was idle.
func (f *featureRecord) learn(by *asker, x, idle float64) {
	if f.over.cost != 0 {
		told := &f.all
		if f.known.several {
			told = &f.known
		}
		f.over.answered(by, !beyond(x, told.cost()))
	}
	f.all.learnUsual(x, idle)
	f.from.add(by.from)
	f.all.several = f.from.several() // true only if there are at least as many answers
	f.uncertainty = f.all.uncertainty()
	if by.known {
		f.known.learnUsual(x, idle)
		f.knownFrom.add(by.from)
		f.known.several = f.knownFrom.several()
	}
}

// overrun is the cost of a request whose guess was far too low. It casts doubt on the guesses for similar
// requests, for some time or until these requests cost as much as guessed. A stranger's overrun doesn't affect
// known clients. Otherwise, strangers could delay all readers of a page by making expensive requests for it.
type overrun struct {
	at    int64   // Unix milliseconds
	cost  float32 // seconds; 0: none
	known bool    // a known client made the request
}

func (o *overrun) left(at int64) float64 { return float64(o.cost) * faded(o.at, at) }

// told records the cost of a running request so far.
func (o *overrun) told(by *asker, x float64) {
	if o.cost == 0 || o.left(by.at) <= x {
		*o = overrun{cost: float32(x), known: by.known, at: by.at}
	}
}

// answered reduces the overrun after an answer that cost as much as guessed. Answers to known clients don't affect
// an overrun of strangers.
func (o *overrun) answered(by *asker, asGuessed bool) {
	if !asGuessed || by.known && !o.known {
		return
	}
	if o.cost /= 2; o.left(by.at) < floor.Seconds() {
		*o = overrun{}
	}
}
