package classify

// KnownCrawlers are those whose operators document below which domains the names of their
// addresses lie, and which nobody else can have names in.
//
// Google documents googleusercontent.com as well, for what its users have it fetch. It is
// not here, as every machine that anybody rents there has a name in it that leads back.
func KnownCrawlers() []Crawler {
	return []Crawler{
		{
			Name: "googlebot", Domains: []string{"googlebot.com", "google.com"},
			Agents: []string{"googlebot", "googleother", "google inspectiontool", "storebot", "adsbot", "mediapartners google", "apis google"},
		},
		{Name: "bingbot", Domains: []string{"search.msn.com"}, Agents: []string{"bingbot", "msnbot", "adidxbot"}},
		{Name: "applebot", Domains: []string{"applebot.apple.com"}, Agents: []string{"applebot"}},
		{
			Name: "yandexbot", Domains: []string{"yandex.ru", "yandex.net", "yandex.com"},
			Agents: []string{"yandexbot", "yandexmobilebot", "yandexaccessibilitybot", "yandexrenderresourcesbot", "yandeximages"},
		},
		{Name: "baiduspider", Domains: []string{"baidu.com", "baidu.jp"}, Agents: []string{"baiduspider"}},
		{Name: "slurp", Domains: []string{"crawl.yahoo.net", "yse.yahoo.net"}, Agents: []string{"slurp"}},
		{Name: "seznambot", Domains: []string{"seznam.cz"}, Agents: []string{"seznambot"}},
		{Name: "petalbot", Domains: []string{"petalsearch.com", "aspiegel.com"}, Agents: []string{"petalbot"}},
		{Name: "mojeekbot", Domains: []string{"mojeek.com"}, Agents: []string{"mojeekbot"}},
		{Name: "amazonbot", Domains: []string{"crawl.amazonbot.amazon"}, Agents: []string{"amazonbot"}},
		{Name: "ccbot", Domains: []string{"crawl.commoncrawl.org"}, Agents: []string{"ccbot"}},
		{Name: "pinterestbot", Domains: []string{"pinterest.com", "pinterestcrawler.com"}, Agents: []string{"pinterestbot"}},
	}
}
