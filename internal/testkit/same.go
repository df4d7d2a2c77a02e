package testkit

import (
	"fmt"
	"reflect"

	"github.com/google/go-cmp/cmp"
)

// Same fails the test if got differs from want. The message shows how they differ, even in unexported fields.
// It begins with what, formatted with args as in package fmt.
func Same[T any](t interface {
	Helper()
	Errorf(format string, args ...any)
}, want, got T, what string, args ...any) {
	t.Helper()
	all := cmp.Exporter(func(reflect.Type) bool { return true })
	if diff := cmp.Diff(want, got, all); diff != "" {
		t.Errorf("%s (-want +got):\n%s", fmt.Sprintf(what, args...), diff)
	}
}
