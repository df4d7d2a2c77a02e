// Package demo is what the demonstrations of tempomat-proxy play with: a site whose pages
// burn real CPU, the people and the crawler who ask for them, and what they got. It knows
// nothing of the proxy between them.
//
//	attack.go   people and a crawler, without the gate and with it
//	burn_*.go   CPU time, used up
//	result.go   what everybody got, as a table
//	site.go     the site, as a process of its own
//	visitor.go  a person, or a crawler
package demo
