package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestGardenTable prints what each of the servers does with a request that may be
// understood in several ways, beside the proxy: the table of docs/protocol-http.md. It runs
// if it is asked for: TEMPOMAT_GARDEN=table go test -run GardenTable -v ./cmd/tempomat-proxy
func TestGardenTable(t *testing.T) {
	if os.Getenv("TEMPOMAT_GARDEN") != "table" {
		t.Skip("it prints a table and tests nothing: TEMPOMAT_GARDEN=table")
	}
	all := append([]gardener{{name: "tempomat", start: func(t *testing.T, next string) string {
		return strings.TrimPrefix(startProxy(t, "http://"+next, observed).url, "http://")
	}}}, gardeners...)
	rows := make([][]string, len(doubts()))
	head := "| |"
	for _, g := range all {
		b := startRecorder(t)
		c := &chain{backend: b, client: visitor{address: g.start(t, b.address), patience: 2 * time.Second}}
		for i, d := range doubts() {
			rows[i] = append(rows[i], c.outcome(d))
		}
		c.client.close()
		head += " " + g.name + " |"
	}
	fmt.Println(head + "\n|---" + strings.Repeat("|---", len(all)) + "|")
	refused := ""
	for i, d := range doubts() {
		if slices.ContainsFunc(rows[i], func(s string) bool { return len(s) != len("400") }) {
			fmt.Printf("| %s: %s | %s |\n", d.group, d.name, strings.Join(rows[i], " | "))
		} else {
			refused += "; " + d.group + ": " + d.name
		}
	}
	fmt.Println("All refuse" + refused[1:] + ".")
}

// outcome is what becomes of such a request, in few words: the status, if it is refused.
func (c *chain) outcome(d doubt) string {
	id, after := c.next(), c.next()
	_, faults := c.backend.all()
	before := len(faults)
	c.client.close()
	err := c.client.say(d.written(id, after))
	said, goesOn := "closes", false
	for n := 0; err == nil; n++ {
		var a visited
		if a, err = c.client.read("GET", nil); err != nil {
			break
		}
		switch {
		case a.id == id && strings.Contains(d.text, "POST"):
			said = fmt.Sprintf("passes, %d bytes", len(c.backend.of(id)[0].body))
		case a.id == id:
			said = "passes"
		case a.id == after:
			goesOn = true
		case n == 0:
			said = fmt.Sprint(a.status)
		default:
			said += fmt.Sprintf(", %d of %q", a.status, a.id)
		}
	}
	passes := strings.HasPrefix(said, "passes")
	switch _, faults = c.backend.all(); {
	case isTimeout(err):
		said += ", waits"
	case len(faults) > before:
		said = "passes as it is" // which is no request to the backend
	case passes && !goesOn:
		said += ", closes"
	case !passes && goesOn:
		said += ", goes on"
	}
	return said
}
