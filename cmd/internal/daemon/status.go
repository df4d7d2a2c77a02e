package daemon

import (
	"fmt"
	"io"
)

// Status is the exit status of a program that ends with an error, or without; the error is
// told on stderr.
func Status(err error, stderr io.Writer) int {
	if err != nil {
		fmt.Fprintln(stderr, err)
		return 1
	}
	return 0
}
