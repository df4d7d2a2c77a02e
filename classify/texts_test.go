package classify

import (
	"fmt"
	"strings"
	"testing"
	"unsafe"
)

// TestTextsAreKept: each is what it was, whatever comes behind it.
func TestTextsAreKept(t *testing.T) {
	var s texts
	var kept, want []string
	for i := range 100 {
		text := strings.Repeat(fmt.Sprint(i, " "), i)
		kept, want = append(kept, s.of([]byte(text))), append(want, text)
	}
	for i := range kept {
		if kept[i] != want[i] {
			t.Errorf("text %d became %q", i, kept[i])
		}
	}
}

// TestTextsShareMemory: several lie in one piece of memory, so that not every one takes an
// allocation; and no more of them than one may keep alive.
func TestTextsShareMemory(t *testing.T) {
	const size = 60 // so that behind the last one of a piece some bytes are left
	var s texts
	var last string
	longest, run := 0, 0
	for range 1000 {
		text := s.of([]byte(strings.Repeat("a", size)))
		if last != "" && uintptr(unsafe.Pointer(unsafe.StringData(text))) == uintptr(unsafe.Pointer(unsafe.StringData(last)))+size {
			run++
		} else {
			run = 1
		}
		longest, last = max(longest, run), text
	}
	if longest < 2 || longest > textSize/size {
		t.Errorf("%d texts of %d bytes share memory; want several, and at most %d bytes", longest, size, textSize)
	}
}
