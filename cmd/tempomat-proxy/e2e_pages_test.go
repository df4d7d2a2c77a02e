package main

import (
	"net/http"
	"testing"
)

const megabyte = 1 << 20

// protocols are the ways in. A client of each speaks only that.
var protocols = []struct {
	name   string
	major  int
	client func(*testing.T) *http.Client
}{
	{"HTTP1", 1, newClient},
	{"h2c", 2, newH2C},
}
