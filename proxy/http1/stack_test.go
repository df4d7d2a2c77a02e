package http1

import (
	"errors"
	"runtime"
	"strings"
	"testing"
)

// TestALongListOfLengthsTakesLittleStack has a client send as many lengths as a head has room
// for: its connection lingers after the refusal, and keeps what stack that took.
func TestALongListOfLengthsTakesLittleStack(t *testing.T) {
	const text = "GET / HTTP/1.1\r\nHost: a\r\nContent-Length: "
	head := text + strings.Repeat("0,", (64<<10-len(text))/2-4) + "0\r\n\r\n"
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	read, measured := make(chan error), make(chan struct{})
	go func() {
		var b Buffer
		b.Reset(strings.NewReader(head), make([]byte, 0, 64<<10))
		read <- b.ReadRequest(new(RequestHead), 64<<10)
		<-measured // the goroutine keeps its stack
	}()
	err := <-read
	runtime.ReadMemStats(&after)
	close(measured)
	if !errors.Is(err, ErrMalformed) {
		t.Error(err)
	}
	if took := int64(after.StackInuse) - int64(before.StackInuse); took > 1<<20 {
		t.Errorf("to read a head of %d bytes took %d bytes of stack", len(head), took)
	}
}
