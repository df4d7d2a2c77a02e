package host

import (
	"encoding/binary"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"

	"tempomat/internal/testkit"
)

// message is a netlink message of that type.
func message(kind uint16, body []byte) []byte {
	b := binary.NativeEndian.AppendUint32(nil, uint32(nlHeader+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = append(append(b, make([]byte, 10)...), body...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

// inetSocket is the kernel's description of a listening TCP socket.
func inetSocket(at string, queued uint32) []byte {
	a := netip.MustParseAddrPort(at)
	b := make([]byte, inetMessage)
	b[0], b[1] = unix.AF_INET, 10
	if a.Addr().Is6() {
		b[0] = unix.AF_INET6
	}
	binary.BigEndian.PutUint16(b[4:], a.Port())
	copy(b[8:], a.Addr().AsSlice())
	binary.NativeEndian.PutUint32(b[56:], queued)
	return b
}

func attribute(kind uint16, value []byte) []byte {
	b := binary.NativeEndian.AppendUint16(nil, uint16(4+len(value)))
	b = append(binary.NativeEndian.AppendUint16(b, kind), value...)
	return append(b, make([]byte, (4-len(b)%4)%4)...)
}

func unixSocket(name string, inode, queued uint32) []byte {
	b := append([]byte{unix.AF_UNIX, 1, 10}, make([]byte, unixMessage-3)...)
	b = append(b, attribute(unixName, append([]byte(name), 0))...)
	b = append(b, attribute(unixFile, binary.NativeEndian.AppendUint64(nil, uint64(inode)))...)
	return append(b, attribute(unixQueue, binary.NativeEndian.AppendUint64(nil, uint64(queued)))...)
}

func TestReadDiag(t *testing.T) {
	type socket struct {
		at, name      string
		inode, queued uint32
	}
	four, six := message(unix.SOCK_DIAG_BY_FAMILY, inetSocket("127.0.0.1:80", 7)), message(unix.SOCK_DIAG_BY_FAMILY, inetSocket("[::]:80", 8))
	for name, c := range map[string]struct {
		text     []byte
		want     []socket
		done, ok bool
	}{
		"nothing": {ok: true},
		"two and the end": {
			append(append(append([]byte{}, four...), six...), message(unix.NLMSG_DONE, make([]byte, 4))...),
			[]socket{{at: "127.0.0.1:80", queued: 7}, {at: "[::]:80", queued: 8}}, true, true,
		},
		"more follow":   {four, []socket{{at: "127.0.0.1:80", queued: 7}}, false, true},
		"mapped":        {message(unix.SOCK_DIAG_BY_FAMILY, inetSocket("[::ffff:127.0.0.1]:80", 1)), []socket{{at: "127.0.0.1:80", queued: 1}}, false, true},
		"unix":          {message(unix.SOCK_DIAG_BY_FAMILY, unixSocket("/run/a.sock", 9, 3)), []socket{{name: "/run/a.sock", inode: 9, queued: 3}}, false, true},
		"unix, unnamed": {message(unix.SOCK_DIAG_BY_FAMILY, unixSocket("", 0, 3)[:unixMessage]), []socket{{}}, false, true},
		"an error":      {append(message(unix.NLMSG_ERROR, make([]byte, 4)), four...), nil, true, false},
		"cut header":    {four[:12], nil, true, false},
		"cut body":      {four[:40], nil, true, false},
		"cut message":   {append(append([]byte{}, four...), six[:60]...), []socket{{at: "127.0.0.1:80", queued: 7}}, true, false},
		"length of 0":   {make([]byte, 64), nil, true, false},
		"short socket":  {message(unix.SOCK_DIAG_BY_FAMILY, inetSocket("127.0.0.1:80", 7)[:60]), nil, false, true},
		"other family":  {message(unix.SOCK_DIAG_BY_FAMILY, append([]byte{17}, make([]byte, 90)...)), nil, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			var got []socket
			done, ok := readDiag(c.text, false, func(s Socket) {
				one := socket{name: string(s.Name), inode: s.File, queued: s.Queued}
				if s.Address.IsValid() {
					one.at = netip.AddrPortFrom(s.Address, s.Port).String()
				}
				got = append(got, one)
			})
			if done != c.done || ok != c.ok || len(got) != len(c.want) {
				t.Fatalf("done %v, ok %v, %v; want %v, %v, %v", done, ok, got, c.done, c.ok, c.want)
			}
			for i := range got {
				testkit.Same(t, c.want[i], got[i], "socket %d", i)
			}
		})
	}
}

// FuzzReadDiag: no reply, however broken, yields more sockets than fit into it, and no socket refers to memory
// outside of it.
func FuzzReadDiag(f *testing.F) {
	f.Add(message(unix.SOCK_DIAG_BY_FAMILY, inetSocket("127.0.0.1:80", 7)))
	f.Add(append(message(unix.SOCK_DIAG_BY_FAMILY, unixSocket("/run/a.sock", 9, 3)), message(unix.NLMSG_DONE, nil)...))
	f.Add(message(unix.NLMSG_ERROR, make([]byte, 4)))
	f.Fuzz(func(t *testing.T, b []byte) {
		n := 0
		done, ok := readDiag(b, false, func(s Socket) {
			n++
			if len(s.Name) > len(b) {
				t.Errorf("a name of %d bytes in %d", len(s.Name), len(b))
			}
		})
		if n > len(b)/nlHeader {
			t.Errorf("%d sockets in %d bytes", n, len(b))
		}
		if !done && !ok {
			t.Error("a broken answer is to be read on")
		}
	})
}
