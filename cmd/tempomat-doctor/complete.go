package main

import (
	"bytes"
	"strings"

	"github.com/spf13/cobra"

	"tempomat/proxy/admin/api"
)

// completing are the words before what the shell wants completed.
func completing(args []string) bool {
	return len(args) > 1 && (args[0] == cobra.ShellCompRequestCmd || args[0] == cobra.ShellCompNoDescRequestCmd)
}

// oneDash gives flags one dash again where the word to complete has one: shells drop what
// does not begin as the word does.
func oneDash(args []string, suggestions []byte) []byte {
	word := args[len(args)-1]
	if len(word) < 2 || word[0] != '-' || word[1] == '-' {
		return suggestions
	}
	lines := bytes.Split(suggestions, []byte("\n"))
	for i, line := range lines {
		if bytes.HasPrefix(line, []byte("--")) {
			lines[i] = line[1:]
		}
	}
	return bytes.Join(lines, []byte("\n"))
}

// words completes one of a few.
func words(all ...string) cobra.CompletionFunc {
	return cobra.FixedCompletions(all, cobra.ShellCompDirectiveNoFileComp)
}

// classes completes a class, as the proxy names them. Without a proxy there is none.
func (d *doctor) classes(c *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	var known api.ClassesReply
	if len(args) > 0 || d.client().get(c.Context(), "/v1/classes", nil, &known) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	var names []string
	for _, class := range known.Classes {
		if !strings.ContainsFunc(class.Name, func(r rune) bool { return r <= ' ' || r > '~' }) {
			names = append(names, class.Name)
		}
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}

// complete names a flag's completions. The flag is there: else it is our mistake, and the
// tests find it.
func complete(c *cobra.Command, flag string, f cobra.CompletionFunc) {
	if err := c.RegisterFlagCompletionFunc(flag, f); err != nil {
		panic(err)
	}
}
