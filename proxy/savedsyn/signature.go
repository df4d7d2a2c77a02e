// Package savedsyn tells how a client's system opens TCP connections: by the first packet of
// one, which Linux keeps if it is asked to. Systems differ in it, whatever a program says of
// itself in its headers.
package savedsyn

import (
	"encoding/binary"
	"strconv"
)

// mostOptions is how many options of a packet are told.
const mostOptions = 24

// signatureOf is what a packet, from the IP header on, tells of the system that sent it: the
// version of IP, the time to live that it began with, the window in segments (or in bytes), its
// scale, and the options in their order: "4:64:44s,7:MSTNW". What the way or the moment decides
// is not in it: sizes of segments, timestamps, numbers. It has at most 64 characters; empty: the
// packet is no SYN.
func signatureOf(packet []byte) string {
	version, life, tcp := splitIP(packet)
	if len(tcp) < 20 || tcp[13]&0x02 == 0 || int(tcp[12]>>4)*4 > len(tcp) {
		return ""
	}
	var options [mostOptions]byte
	o := readOptions(tcp[20:max(20, int(tcp[12]>>4)*4)], options[:0])
	var b []byte
	b = append(strconv.AppendInt(b, int64(version), 10), ':')
	b = append(strconv.AppendInt(b, int64(initial(life)), 10), ':')
	if window := int64(binary.BigEndian.Uint16(tcp[14:])); o.segment > 0 && window%o.segment == 0 {
		b = append(strconv.AppendInt(b, window/o.segment, 10), 's')
	} else {
		b = strconv.AppendInt(b, window, 10)
	}
	b = append(strconv.AppendInt(append(b, ','), int64(o.scale), 10), ':')
	return string(append(b, o.names...))
}

// splitIP returns what it needs of the IP header, and the packet behind it; nil: it is none of
// TCP.
func splitIP(p []byte) (version int, life byte, tcp []byte) {
	switch {
	case len(p) >= 20 && p[0]>>4 == 4 && p[9] == 6 && int(p[0]&15)*4 <= len(p):
		return 4, p[8], p[int(p[0]&15)*4:]
	case len(p) >= 40 && p[0]>>4 == 6 && p[6] == 6:
		return 6, p[7], p[40:]
	}
	return 0, 0, nil
}

// initial is what a time to live began with: systems have one of these, and the way takes some.
func initial(life byte) int {
	for _, x := range [...]int{32, 64, 128} {
		if int(life) <= x {
			return x
		}
	}
	return 255
}

// options are those of TCP.
type options struct {
	names   []byte // a letter for each
	segment int64  // the largest; 0: it is not told
	scale   byte
}

func readOptions(p []byte, names []byte) (o options) {
	for len(p) > 0 && len(names) < cap(names) {
		kind := p[0]
		letter := byte('?')
		if kind < 9 {
			letter = "ENMWSst?T"[kind] // end, no operation, segment, window scale, SACK (and two of its), timestamps
		}
		names = append(names, letter)
		if kind == 0 {
			break
		}
		if kind == 1 {
			p = p[1:]
			continue
		}
		if len(p) < 2 || p[1] < 2 || int(p[1]) > len(p) {
			break
		}
		switch value := p[2:p[1]]; {
		case kind == 2 && len(value) == 2:
			o.segment = int64(binary.BigEndian.Uint16(value))
		case kind == 3 && len(value) == 1:
			o.scale = value[0]
		}
		p = p[p[1]:]
	}
	o.names = names
	return o
}
