package policy

import (
	"errors"
	"fmt"

	"tempomat/classify"
	"tempomat/config"
	"tempomat/limiter"
)

// siteInfos are the sites of a configuration as the limiter is told of them.
func siteInfos(c *config.Config) (all []limiter.SiteInfo) {
	for _, s := range c.Sites.Named {
		all = append(all, limiter.SiteInfo{Name: s.Name, Share: s.Share})
	}
	return all
}

// sites are those of a configuration as requests are told apart by them. Their error names
// each secret that is none.
func sites(given []config.Site) (all []classify.Site, err error) {
	for _, s := range given {
		exempt, fault := exemptions(s.Exempt)
		if fault != nil {
			err = errors.Join(err, fmt.Errorf("sites.%s: %w", s.Name, fault))
		}
		all = append(all, classify.Site{Name: s.Name, Hosts: s.Hosts, Exempt: exempt})
	}
	return all, err
}
