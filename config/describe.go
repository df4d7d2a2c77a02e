package config

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"

	"tempomat/config/form"
)

// Describe prints the configuration in effect: every key with its value, then
// what each key of a class may use, and the warnings. cpus is the number of CPUs that shares are
// parts of: CPUCount, or what the machine has where that is 0.
func (c *Config) Describe(w io.Writer, cpus float64) {
	d := newDraft(c)
	out := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	for _, s := range canonical(d) {
		fmt.Fprintf(out, "%s\t%s\n", s.Path, inEffect(s, cpus))
	}
	_ = out.Flush() // whoever needs w's errors keeps them in w
	fmt.Fprintln(w, "\nlimits")
	for _, class := range d.classes {
		if !class.isAbsent() {
			fmt.Fprintf(out, "  %s\t%s\n", class.Name, limits(class, cpus))
		}
	}
	_ = out.Flush()
	for _, warning := range c.Warnings {
		fmt.Fprintf(w, "\nwarning: %s\n", warning)
	}
}

// inEffect is a setting's value, and what a 0 stands for.
func inEffect(s form.Setting, cpus float64) string {
	text := s.Value.Text()
	switch {
	case text == "":
		return "none"
	case text != "0" || s.Zero == "":
		return text
	case s.Path == "cpuCount":
		return fmt.Sprintf("0 (%s: %s)", s.Zero, rounded(cpus))
	}
	return fmt.Sprintf("0 (%s)", s.Zero)
}

// limits is what a key of the class may use, in words.
func limits(c *draftClass, cpus float64) string {
	if c.off {
		return "off"
	}
	text := fmt.Sprintf("%s CPU-s/s per key (share %s of %s CPUs), burst %s",
		rounded(c.Share*cpus), form.FormatNumber(c.Share), rounded(cpus), form.FormatDuration(c.Burst))
	switch {
	case c.Header != "":
		text += ", by header " + c.Header
	case c.Path:
		text += ", by path"
	}
	return text + flags(c.Class)
}

// rounded drops the noise of binary fractions: 0.30000000000000004 is 0.3.
func rounded(x float64) string {
	if x != 0 {
		digits := math.Pow(10, 6-math.Ceil(math.Log10(math.Abs(x))))
		x = math.Round(x*digits) / digits
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}
