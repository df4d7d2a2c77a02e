package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// man writes the manual pages: the help of all commands as roff (man(7)). It is our own, as
// cobra's takes the help for Markdown, which would reflow its tables, and brings a Markdown
// parser and YAML into the doctor.
func (d *doctor) man() *cobra.Command {
	return &cobra.Command{
		Use:     "man DIRECTORY",
		Short:   "Write the manual pages into a directory",
		Long:    "Write the manual pages of the doctor and all its commands into a directory, which is made.",
		Example: "  tempomat-doctor man /usr/local/share/man/man1",
		Hidden:  true,
		Args:    takes(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil { //nolint:gosec // manuals are for all to read
				return err
			}
			for _, page := range documented(c.Root()) {
				name := filepath.Join(args[0], pageName(page)+".1")
				if err := os.WriteFile(name, []byte(manual(page)), 0o644); err != nil { //nolint:gosec // manuals are for all to read
					return err
				}
			}
			return nil
		},
	}
}

// documented are a command and those below it that the help shows, but for cobra's own.
func documented(c *cobra.Command) []*cobra.Command {
	all := []*cobra.Command{c}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() && sub.Name() != "help" {
			all = append(all, documented(sub)...)
		}
	}
	return all
}

// pageName is tempomat-doctor-top.
func pageName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manual is the page of a command.
func manual(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" \"tempomat %s\" \"tempomat\"\n", roff(strings.ToUpper(pageName(c))), roff(version))
	fmt.Fprintf(&b, ".SH NAME\n%s \\- %s\n", roff(pageName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n", roff(c.UseLine()))
	long := c.Long
	if long == "" {
		long = c.Short + "."
	}
	fmt.Fprintf(&b, ".SH DESCRIPTION\n%s", asIs(long))
	options(&b, "OPTIONS", c.NonInheritedFlags())
	options(&b, "OPTIONS OF ALL COMMANDS", c.InheritedFlags())
	if c.Example != "" {
		fmt.Fprintf(&b, ".SH EXAMPLES\n%s", asIs(c.Example))
	}
	if !c.HasParent() {
		b.WriteString(".SH EXIT STATUS\n0: it was done. 1: it failed, standard error says why and what to do. 2: the command line is wrong.\n")
		fmt.Fprintf(&b, ".SH ENVIRONMENT\n.TP\n.B %s\nthe admin socket, as in the proxy's configuration\n", listenVariable)
	}
	seeAlso(&b, c)
	return b.String()
}

// asIs is a text whose lines stay as they are.
func asIs(text string) string { return ".nf\n" + roff(text) + "\n.fi\n" }

func options(b *strings.Builder, title string, flags *pflag.FlagSet) {
	if !flags.HasAvailableFlags() {
		return
	}
	fmt.Fprintf(b, ".SH %s\nFlags may begin with one dash or two.\n", title)
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		name := "--" + f.Name
		if f.Shorthand != "" {
			name = "-" + f.Shorthand + ", " + name
		}
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(strings.TrimSpace(name+" "+kind)), roff(usage))
	})
}

func seeAlso(b *strings.Builder, c *cobra.Command) {
	var others []string
	for _, page := range documented(c.Root()) {
		if near := page.Parent() == c || c.Parent() == page; near {
			others = append(others, "\\fB"+roff(pageName(page))+"\\fR(1)")
		}
	}
	if len(others) > 0 {
		fmt.Fprintf(b, ".SH SEE ALSO\n%s\n", strings.Join(others, ",\n"))
	}
}

// roff is a text as roff takes it: backslashes, dashes, and dots that begin a line.
func roff(text string) string {
	lines := strings.Split(strings.NewReplacer(`\`, `\e`, `-`, `\-`).Replace(text), "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
