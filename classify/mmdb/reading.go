package mmdb

import (
	"errors"
	"strconv"
	"strings"

	"github.com/oschwald/maxminddb-golang/v2"
)

// reading finds the key in a record; empty: it has none. Its error is that the file is broken.
type reading func(maxminddb.Result) (string, error)

// readings are those of the kinds of databases that there are.
func readings() map[string]reading { return map[string]reading{"asn": readASN, "country": readCountry} }

// readASN finds the number of an autonomous system, as MaxMind and DB-IP tell it, or as IPinfo
// does.
func readASN(r maxminddb.Result) (string, error) {
	for _, name := range [...]string{"autonomous_system_number", "asn"} {
		x, err := at(r, name)
		if err != nil {
			return "", err
		}
		text, _ := x.(string)
		number, isNumber := x.(uint64)
		if !isNumber {
			number, err = strconv.ParseUint(strings.TrimPrefix(strings.ToUpper(text), "AS"), 10, 32)
		}
		if err == nil && number > 0 && number <= 1<<32-1 {
			return "AS" + strconv.FormatUint(number, 10), nil
		}
	}
	return "", nil
}

// readCountry finds the code of a country (ISO 3166-1), as MaxMind and DB-IP tell it, or as
// IPinfo does. Where an address is used counts, or else where its network is registered.
func readCountry(r maxminddb.Result) (string, error) {
	for _, path := range [...][]any{{"country", "iso_code"}, {"country_code"}, {"country"}, {"registered_country", "iso_code"}} {
		x, err := at(r, path...)
		if err != nil {
			return "", err
		}
		code, _ := x.(string)
		code = strings.ToUpper(code)
		if len(code) == 2 && strings.Trim(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ") == "" {
			return code, nil
		}
	}
	return "", nil
}

// at is what a record has there, a text or a number; nil: another thing, or nothing.
func at(r maxminddb.Result, path ...any) (x any, err error) {
	err = r.DecodePath(&x, path...)
	if _, broken := errors.AsType[maxminddb.InvalidDatabaseError](err); broken {
		return nil, err
	}
	switch x := x.(type) {
	case string:
		return x, nil
	case uint64:
		return x, nil
	}
	return nil, nil
}
