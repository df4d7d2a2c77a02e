// Package cpuaccount says what a request costs the server, in CPU-seconds:
// beforehand by a guess from what the like of it cost before, afterwards by a
// meter that ran while the backend worked on it.
//
// # What is measured
//
// The meter runs from the moment the proxy hands a request to the backend until
// the backend's last byte has come. It stands still while the proxy waits for
// the client: for the rest of an upload, or for room in the connection of
// somebody who reads slowly. So nobody is charged for the waiting that the proxy
// itself caused, and a slow reader is charged for the backend's time, not for
// their own.
//
// # From wall time to CPU time
//
// A request that ran alone for a second used at most a CPU-second. One that ran
// for a second beside fifteen others on two CPUs got an eighth of them. The wall
// source ignores that, as the original tempomat did, and bills the victims of a
// crowd for the crowd. The corrected source scales the time by min(1, CPUs /
// requests at the backend) as it passes. The header source takes the backend's
// word, and corrects where it has none.
package cpuaccount
