//go:build accept

package mmdb

import "testing"

// TestAcceptMillion reads a file of a million networks again and again.
func TestAcceptMillion(t *testing.T) { reloadUnderLoad(t, 1_000_000) }
