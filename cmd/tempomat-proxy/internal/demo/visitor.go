package demo

import (
	"context"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"time"
)

// thinking is the mean time that a person looks at a page.
const thinking = 1500 * time.Millisecond

// visit is one page that somebody asked for.
type visit struct {
	at    time.Time
	took  time.Duration
	ended bool // answered; else the demonstration was over before
}

// visitor asks the demo site for pages.
type visitor struct {
	client  *http.Client
	site    string
	address string
	visits  []visit
}

func newVisitor(site, address string) *visitor {
	jar, _ := cookiejar.New(nil) // never fails
	return &visitor{
		client: &http.Client{Jar: jar, Transport: &http.Transport{}}, site: site, address: address,
	}
}

// browse is what a person does: a page, its parts, a pause.
func (v *visitor) browse(ctx context.Context) []visit {
	defer v.client.CloseIdleConnections()
	for pause(ctx, time.Duration(rand.ExpFloat64()*float64(thinking))) { //nolint:gosec // no secret
		if v.note(ctx, "/") {
			v.get(ctx, "/style.css")
			v.get(ctx, "/logo.svg")
		}
	}
	return v.visits
}

// crawl asks for one page after the other.
func (v *visitor) crawl(ctx context.Context) []visit {
	defer v.client.CloseIdleConnections()
	v.client.Jar = nil
	for ctx.Err() == nil {
		if !v.note(ctx, "/heavy") {
			pause(ctx, 100*time.Millisecond)
		}
	}
	return v.visits
}

// note gets a page and remembers how long it took.
func (v *visitor) note(ctx context.Context, path string) bool {
	at := time.Now()
	ok := v.get(ctx, path)
	v.visits = append(v.visits, visit{at: at, took: time.Since(at), ended: ok})
	return ok
}

func (v *visitor) get(ctx context.Context, path string) bool {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, v.site+path, nil)
	if err != nil {
		return false
	}
	r.Header.Set("X-Forwarded-For", v.address)
	res, err := v.client.Do(r)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, res.Body)
	_ = res.Body.Close()
	return err == nil && res.StatusCode == http.StatusOK
}

// pause waits, and tells whether the context goes on.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
