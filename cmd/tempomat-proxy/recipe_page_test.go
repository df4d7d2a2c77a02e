//go:build world

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recipePage is a page of docs/recipes. What it has the reader do is what the tests do.
type recipePage struct {
	name   string
	blocks []recipeBlock
}

// recipeBlock is what stands between two fences.
type recipeBlock struct {
	section  string // the heading that it stands under
	language string
	file     string // that it is, as a whole; empty: it is none
	text     string
}

// fence begins a block, with the file's name as its title.
var fence = regexp.MustCompile("^```(\\w+)(?: title=\"(/[^\"]+)\")?$")

func readRecipe(t *testing.T, name string) *recipePage {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("../../docs/recipes", name+".md"))
	if err != nil {
		t.Fatal(err)
	}
	p := &recipePage{name: name}
	var section string
	var block *recipeBlock
	for i, line := range strings.Split(string(text), "\n") {
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

// has tells whether there are blocks under a section.
func (p *recipePage) has(section string) bool {
	return slices.ContainsFunc(p.blocks, func(b recipeBlock) bool { return b.section == section })
}

// under are the blocks of a section. A page without them would show nothing.
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
