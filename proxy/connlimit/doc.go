// Package connlimit bounds how many connections are open, and decides which one is
// closed when one more comes.
//
// Below the bound nobody is touched. At the bound a newcomer is let in all the same,
// and a connection is closed in its place (shed): one of the client that holds most.
// A bound that turned newcomers away would let whoever has filled it keep everybody
// else out, and a bound for each address would be too low for an office or too high
// for an attacker.
//
// # Who gives
//
// An address weighs as much as it holds connections; one of IPv6 stands for its /64.
// Who holds few (8 to 32, by the bound) weighs as much as who holds that many: a
// browser opens six, and what is fair among browsers is not a question of numbers.
//
// A flood may come from many addresses that hold few each. So a network has a weight
// too: the 16th part of what it holds for a /24 (IPv6: /48), the 64th part for a /16
// (/32). It counts only where it is more than any address's: the neighbours of an
// attacker are not meant, nor are the customers of a large provider. In the network
// that weighs most, the address that weighs most gives.
//
// An address whose connections the caller trusts, a balancer's, brings many clients.
// It weighs as much as who holds few, however many it holds.
//
// Of what weighs alike, the connection goes that has waited for its client for longest,
// be it for the next request or for the first one. That is nearly always one between
// two requests, whose closing breaks nothing; it is one whose first request does not
// come where that takes longer than a browser keeps an idle connection.
//
// A connection with a request under way is not shed, whoever holds it, as long as its
// address holds at most a quarter of the bound, and somebody else has one that waits. Where
// only who holds few has, newcomers above all, it is the address that holds most that
// gives, even if all that it holds is under way, as long as it holds many: more than a 64th
// of the bound. Or a few addresses with uploads that never end would keep everybody out. If
// no address holds as many, it is the /24 that has more than an eighth of the bound, or else
// the /16 that has more than a quarter: it gives what waits, else a request under way of its
// address that holds most. If none has as many, the newcomer itself is closed.
//
// # How it is found
//
// Idle and Busy, which are called for each request, set one word of the connection and
// take no lock. So a connection's place in its address's line (a heap by time) may be
// out of date, but only in one direction: it has waited for less long than its place
// says. Who looks for one to shed takes the first in line, corrects its place if it is
// out of date, and looks again; what is first and up to date has waited for longest. One
// that is busy leaves the line, and gets back in by its next Idle, the only one that
// takes the lock. Each correction follows a request, so that all together cost O(log n)
// for each request at most, and nothing at all below the bound. The first to be shed
// after a long time below it may need as many as there are connections: of 100,000 that
// is some 70 ms, in which nobody else comes or leaves.
//
// The addresses are the leaves of a binary tree by their bits, without branches that do
// not fork (a PATRICIA trie). So each network is a part of the tree, and each branch
// knows what its part holds and which way its heaviest address lies. It is at most 64
// deep, whatever addresses an attacker has, and it has as many branches as leaves: a
// connection takes less than 200 bytes even if all are of different addresses.
//
// Memory is not counted here. What an idle connection holds is the same for all, and
// so bounded by their number; what a request holds is bounded where it is taken, with
// a budget for each address (package spool), and is given back by waiting, not by
// closing connections.
package connlimit
