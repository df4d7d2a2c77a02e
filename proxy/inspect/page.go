package inspect

import (
	"fmt"
	"math"
	"net/url"
	"slices"

	"tempomat/cpuaccount"
	"tempomat/proxy/admin/api"
)

// anyURL is the site's first page.
func anyURL() *url.URL { return &url.URL{Path: "/"} }

// page tells of the page that was asked for, or that one of its requests under way is
// for.
func (e *explanation) page() {
	var k cpuaccount.Kind
	var title string
	switch {
	case e.kind == "page":
		k, title = e.pageKind()
	case len(e.waiting) > 0:
		k, title = e.waiting[0].Kind, "The page that it waits for"
	case len(e.running) > 0:
		k, title = e.running[0].Kind, "The page that it gets"
	default:
		return
	}
	known := e.Guess.Known(e.now, k)
	if e.kind == "page" {
		e.known = e.known || known.Answers > 0 || known.Asked > 0
	}
	rests := fmt.Sprintf("It rests on %s to such requests.", plural(known.Answers, "answer", "answers"))
	switch {
	case known.Overran:
		rests = "It is in doubt: such a request recently cost far more than was guessed."
	case !known.Sure && known.Answers == 0:
		rests = fmt.Sprintf("It is a mere guess: of %s, none was answered recently.", plural(known.Asked, "such request", "such requests"))
	case !known.Sure:
		rests = "It is not sure: there are too few answers, to too few addresses, or something about it was never answered."
	}
	facts := []api.ExplainFact{
		{Name: "URL", Value: k.URL},
		{Name: "likely cost", Value: cpuSeconds(known.Cost.Seconds()), Means: rests},
	}
	if k.Shape != k.URL {
		facts = slices.Insert(facts, 1, api.ExplainFact{Name: "shape", Value: k.Shape})
	}
	if known.Idle.Seconds() >= 1 {
		facts = append(facts, api.ExplainFact{Name: "holds a worker", Value: "for " + spanOf(known.Idle), Means: "It likely hardly computes meanwhile."})
	}
	e.add(title, append(facts, e.reputation(k)...)...)
}

// reputation tells who asks for such a page: of strangers, those go later who ask for what known
// people do not. Its words go by the whole numbers that are shown.
func (e *explanation) reputation(k cpuaccount.Kind) []api.ExplainFact {
	r := e.Guess.Explain(k)
	people := math.Round(r.People)
	readers := min(people, math.Round(r.Readers)) // what is forgotten by and by is not forgotten evenly
	what, value := "Known people read it: strangers who ask for it are not held back for that.", fmt.Sprintf("%.2f of 1", r.Value)
	switch {
	case r.Rare && readers == 0 && r.Strange == 0:
		value, what = "none", "Nothing is known: neither known people nor strangers asked for it recently."
	case r.Rare:
		value, what = "none", "Nothing is known: too few asked for it recently."
	case people < 1:
		value, what = "none", "No known people were here recently, so nothing is held against it."
	case r.Value < 0.05 && readers < 1:
		what = "Only strangers ask for it: of the strangers, those who do go last."
	case r.Value < 0.05:
		what = "Known people ask for it as well, but strangers use far more CPU time on it: of the strangers, those who ask for it go last."
	case r.Value < 0.35:
		what = "Few known people read it, for the CPU time that strangers use on it: of the strangers, those who ask for it go later."
	}
	if value != "none" {
		what += fmt.Sprintf(" By %s: %.0f of %.0f known people asked for it recently, and strangers used %s of their %s on it.",
			r.Feature, readers, people, cpuSeconds(r.Strange.Seconds()), cpuSeconds(r.Strangers.Seconds()))
	}
	return []api.ExplainFact{{Name: "reputation", Value: value, Means: what}}
}
