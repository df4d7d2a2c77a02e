package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tempomat/cmd/tempomat-doctor/internal/harmless"
	"tempomat/proxy/admin/api"
)

// share shows how the sidecar shares its accounts with others.
func (d *doctor) share() *cobra.Command {
	return &cobra.Command{
		Use:   "share",
		Short: "Show with whom accounts are shared, and how that goes",
		Long: `Show with whom this sidecar shares its accounts (a tempomat-master, Redis, other
sidecars, nobody), whether they are there, and what is wrong if they are not.`,
		Example: `  tempomat-doctor share`,
		Args:    takes(0),
		RunE: func(c *cobra.Command, _ []string) error {
			var r api.ShareReply
			if err := d.client().get(c.Context(), "/v1/share", nil, &r); err != nil {
				return err
			}
			out := tabwriter.NewWriter(d.stdout, 0, 8, 2, ' ', 0)
			fmt.Fprintf(out, "kind\t%s\n", harmless.Text(r.Kind))
			if r.Trouble != "" {
				fmt.Fprintf(out, "trouble\t%s\n", harmless.Text(r.Trouble))
			}
			printTree(out, "", r.State)
			return out.Flush()
		},
	}
}

// printTree prints whatever the way of sharing tells of itself, a line for each
// value.
func printTree(out io.Writer, name string, v any) {
	inside := func(key string) string {
		if name == "" {
			return key
		}
		return name + "." + key
	}
	switch v := v.(type) {
	case nil:
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			printTree(out, inside(key), v[key])
		}
	case []any:
		if words, ok := texts(v); ok {
			fmt.Fprintf(out, "%s\t%s\n", harmless.Text(name), harmless.Text(cmp.Or(strings.Join(words, ", "), "none")))
			return
		}
		for i, member := range v {
			printTree(out, inside(fmt.Sprint(i+1)), member)
		}
	case string:
		fmt.Fprintf(out, "%s\t%s\n", harmless.Text(name), harmless.Text(v))
	case float64: // all numbers of JSON; a million is not to become 1e+06
		fmt.Fprintf(out, "%s\t%s\n", harmless.Text(name), strconv.FormatFloat(v, 'f', -1, 64))
	default:
		fmt.Fprintf(out, "%s\t%v\n", harmless.Text(name), v)
	}
}

// texts are the members of a list that has nothing but texts.
func texts(list []any) (all []string, ok bool) {
	for _, member := range list {
		text, ok := member.(string)
		if !ok {
			return nil, false
		}
		all = append(all, text)
	}
	return all, true
}
