package class

import (
	"regexp"
	"testing"
)

// TestTable: names are what the configuration takes for one, and of each row what it needs
// is there.
func TestTable(t *testing.T) {
	sound := regexp.MustCompile(`^[a-z][A-Za-z0-9]{0,31}$`)
	seen := make(map[string]bool)
	if len(Kinds()) == 0 {
		t.Error("there are no classes")
	}
	for i, k := range Kinds() {
		switch {
		case !sound.MatchString(k.Name), seen[k.Name]:
			t.Errorf("%q is no name of its own", k.Name)
		case k.Groups == "":
			t.Errorf("%s: nobody is told what it groups by", k.Name)
		case k.Usual != (k.Share > 0), k.Usual != (k.Burst > 0):
			t.Errorf("%s: share %g and burst %s are those of a usual class, and of no other", k.Name, k.Share, k.Burst)
		case k.Share > 1, k.Workers < 0, k.Workers > 1:
			t.Errorf("%s: share %g or workers %g is no part", k.Name, k.Share, k.Workers)
		case (i == 0) != (k.Whose == Client):
			t.Errorf("%s: the first one is the client, and no other", k.Name)
		case k.Database != "" && !k.Address:
			t.Errorf("%s: databases are asked for addresses", k.Name)
		}
		seen[k.Name] = true
		if found, ok := Find(k.Name); !ok || found != k {
			t.Errorf("%s is not found by its name", k.Name)
		}
	}
	if _, ok := Find("session"); ok {
		t.Error("a name is found that is none")
	}
}
