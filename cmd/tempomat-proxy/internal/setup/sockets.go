package setup

import (
	"encoding/hex"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// listening lists the TCP sockets that listen, and who has them, as far as this user
// may see; with ports only those there. /proc is the machine's own, whatever the root: there
// is one network.
func listening(ports ...int) (sockets []Socket) {
	byInode := map[string][]netip.AddrPort{}
	for _, name := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(name) // without IPv6 there is none
		for line := range strings.Lines(string(text)) {
			words := strings.Fields(line)
			if len(words) > 9 && words[3] == "0A" {
				if a, ok := procAddress(words[1]); ok && (len(ports) == 0 || slices.Contains(ports, int(a.Port()))) {
					byInode[words[9]] = append(byInode[words[9]], a)
				}
			}
		}
	}
	owners := socketOwners(byInode)
	for inode, addresses := range byInode {
		for _, a := range addresses {
			sockets = append(sockets, Socket{a, owners[inode].name, owners[inode].pid})
		}
	}
	slices.SortFunc(sockets, func(a, b Socket) int { return a.Address.Compare(b.Address) })
	return sockets
}

// procAddress reads "0100007F:1F90": words of 32 bits in the machine's order.
func procAddress(text string) (netip.AddrPort, bool) {
	address, port, _ := strings.Cut(text, ":")
	b, err := hex.DecodeString(address)
	p, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(b)%4 != 0 {
		return netip.AddrPort{}, false
	}
	for i := 0; i < len(b); i += 4 {
		slices.Reverse(b[i : i+4])
	}
	ip, ok := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(ip.Unmap(), uint16(p)), ok
}

// program is a process and its name.
type program struct {
	name string
	pid  int
}

// socketOwners names the programs that have sockets, by the sockets' numbers.
func socketOwners(wanted map[string][]netip.AddrPort) map[string]program {
	owners := map[string]program{}
	if len(wanted) == 0 {
		return owners
	}
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*") // the pattern is sound
	for _, link := range links {
		target, err := os.Readlink(link)
		inode, ok := strings.CutPrefix(strings.TrimSuffix(target, "]"), "socket:[")
		if err != nil || !ok || len(wanted[inode]) == 0 || owners[inode].pid != 0 {
			continue
		}
		process := filepath.Dir(filepath.Dir(link))
		name, _ := os.ReadFile(filepath.Join(process, "comm")) // it may have ended
		pid, _ := strconv.Atoi(filepath.Base(process))         // digits, as the pattern says
		owners[inode] = program{strings.TrimSpace(string(name)), pid}
	}
	return owners
}
