//go:build world

package main

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tempomat/internal/testkit"
)

// recipePage is a page in docs/recipes. The tests follow its instructions.
type recipePage struct {
	name   string
	blocks []recipeBlock
}

// recipeBlock is the text between two fences.
type recipeBlock struct {
	section  string // heading above the block
	language string
	file     string // the file that consists of this text; empty: none
	text     string
}

// fence matches the beginning of a block, whose title is the name of a file.
var fence = regexp.MustCompile("^```(\\w+)(?: title=\"(/[^\"]+)\")?$")

func readRecipe(t *testing.T, name string) *recipePage {
	t.Helper()
	text := testkit.ReadFile(t, filepath.Join("../../docs/recipes", name+".md"))
	p := &recipePage{name: name}
	var section string
	var block *recipeBlock
	for i, line := range strings.Split(text, "\n") {
		if block != nil {
			if line == "```" {
				p.blocks, block = append(p.blocks, *block), nil
			} else {
				block.text += line + "\n"
			}
			continue
		}
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = heading
		}
		if !strings.HasPrefix(line, "```") {
			continue
		}
		words := fence.FindStringSubmatch(line)
		if words == nil {
			t.Fatalf("%s.md, line %d: no fence that a test can run: %s", name, i+1, line)
		}
		block = &recipeBlock{section: section, language: words[1], file: words[2]}
	}
	if block != nil {
		t.Fatalf("%s.md: a block has no end", name)
	}
	return p
}

// has reports whether a section has blocks.
func (p *recipePage) has(section string) bool {
	return slices.ContainsFunc(p.blocks, func(b recipeBlock) bool { return b.section == section })
}

// under returns the blocks of a section. If there are none, the test fails, because the page would show nothing.
func (p *recipePage) under(t *testing.T, section string) (blocks []recipeBlock) {
	t.Helper()
	for _, b := range p.blocks {
		if b.section == section {
			blocks = append(blocks, b)
		}
	}
	if len(blocks) == 0 {
		t.Fatalf("%s.md has no blocks under %q", p.name, section)
	}
	return blocks
}
