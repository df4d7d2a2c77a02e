package main

import (
	"net/http"
	"testing"
)

// outwait waits until a newcomer was redirected: whoever waited before that and
// was to be redirected, was.
func (f *fullSite) outwait(t *testing.T, client string) {
	t.Helper()
	if got := got(open(t, newClient(t), http.MethodGet, f.url+"/", clicked(client), nil)); got != "302 ./" {
		t.Fatalf("%s, which is to be redirected, got %s", client, got)
	}
}
