package main

import (
	"fmt"
	"os"
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
	rows := make([]string, len(doubts()))
	for i, d := range doubts() {
		rows[i] = "| " + d.group + ": " + d.name + " |"
	}
	head := "| |"
	for _, g := range all {
		b := startRecorder(t)
		c := &chain{recorder: b, visitor: visitor{address: g.start(t, b.address), patience: 2 * time.Second}}
		for i, d := range doubts() {
			rows[i] += " " + c.outcome(d) + " |"
		}
		c.visitor.close()
		head += " " + g.name + " |"
	}
	fmt.Println(head + "\n|---" + strings.Repeat("|---", len(all)) + "|\n" + strings.Join(rows, "\n"))
}

// outcome is what becomes of such a request, in few words.
func (c *chain) outcome(d doubt) string {
	id, after := c.next(), c.next()
	_, faults := c.recorder.all()
	before := len(faults)
	c.visitor.close()
	err := c.say(d.written(id, after))
	var said []string
	for err == nil {
		var a visited
		if a, err = c.read("GET", nil); err != nil {
			break
		}
		switch a.id {
		case id:
			body := ""
			if of := c.recorder.of(id); len(of) == 1 {
				body = of[0].body
			}
			said = append(said, fmt.Sprintf("passes %d", len(body)))
		case after:
			said = append(said, "next")
		case "smuggled":
			said = append(said, "**S**")
		default:
			said = append(said, fmt.Sprint(a.status))
		}
	}
	switch {
	case isTimeout(err):
		said = append(said, "waits")
	case len(said) == 0:
		said = append(said, "closes")
	}
	if _, faults = c.recorder.all(); len(faults) > before {
		said = append(said, fmt.Sprintf("to the backend: %.60q", faults[before]))
	}
	return strings.Join(said, ", ")
}
