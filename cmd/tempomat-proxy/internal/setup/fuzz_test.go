package setup

import "testing"

// FuzzDecide reads anything as a configuration: there is a plan or an obstacle, and a plan
// can be taken back, also where the files end in other lines since.
func FuzzDecide(f *testing.F) {
	f.Add("Listen 80\n<VirtualHost *:80>\nServerName a\n</VirtualHost>\n", "server {\n listen 80;\n listen [::]:80;\n}\n")
	f.Add("<IfModule x>\nListen 80 \\\n 443\n<VirtualHost *:443>\nSSLCertificateFile \"/a", "server { listen 80; location / { return 301 https://$host; } }")
	f.Add("Listen", "port_in_redirect;server{\nlisten 80;\nport_in_redirect;\n}")
	f.Fuzz(func(t *testing.T, apache, nginx string) {
		for _, m := range []Machine{readable(apacheMachine("ssl_module", "ports.conf", apache)), readable(nginxMachine("a", nginx))} {
			p := Decide(m)
			if len(p.Obstacles) > 0 {
				continue
			}
			for _, c := range p.Changes {
				if len(c.Edits) == 0 {
					continue
				}
				if text, err := applyEdits(c.Before, c.Edits); err != nil || text != c.After || c.After == c.Before {
					t.Errorf("%q becomes %q, not %q: %v", c.Before, text, c.After, err)
				}
			}
		}
	})
}
