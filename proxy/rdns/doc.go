// Package rdns finds the names of addresses that lead back to them: forward-confirmed
// reverse DNS. So a crawler shows that it is whose it says it is: only who owns
// googlebot.com can have a name below that lead to an address of theirs.
//
// [Names.Host] never waits: it tells what is known, and has the rest asked for by a few
// goroutines that [Names.Run] starts. Until the answer is there nothing is known, which
// is for nobody's good and to nobody's harm. So it does not matter to a request whether
// the resolver is slow, dead or lies:
//
//   - An address is asked for once at a time, and what was answered is kept: a name for a
//     day, that there is none for an hour, that nobody answered for five seconds, and
//     longer each time, up to ten minutes. A name that was confirmed holds for a week
//     while nobody answers.
//   - Only a name below one of the domains that matter has a second question asked.
//   - There are at most ten questions a second, after the first twenty, and four at a time.
//   - At most 512 addresses wait to be asked for, of which one network has 32: who comes
//     from a thousand addresses of one does not keep others' answers away. What finds no
//     place is asked for when it comes again.
//   - At most 16384 addresses are remembered, those with a name for longest: 4 MB.
//
// # One file for each idea
//
//	names.go    what is known, and who is to be asked for
//	queue.go    those who wait to be asked for
//	ask.go      asking
//	silence.go  who tells that nobody answers
package rdns
