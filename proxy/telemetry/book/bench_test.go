package book

import (
	"fmt"
	"time"
)

func full() *Book {
	k := New(began)
	for i := range 10_000 {
		r := request(address(i<<12), fmt.Sprintf("/%d", i%500), fmt.Sprintf("/?a=%d&b=%d", i%20, i%7), 1000*time.Second)
		k.Take(began, batchOf(entry(began, r, 1)))
	}
	return k
}
