// Package form reads a configuration file of YAML or JSON, and the environment over
// it, into settings: a table that has for each key its path, the field that it sets,
// what is allowed and what it means. It notes everything that is wrong, with file,
// line, key and value, instead of the first fault only. From the same table come the
// reference in Markdown and the JSON Schema.
//
// It knows no key of tempomat's: those are in package config.
package form
