package identity

import (
	"net/http"
	"strings"
	"testing"
)

func TestProductToken(t *testing.T) {
	for ua, want := range map[string]string{
		"":                                   "*",
		" ":                                  "*",
		"/1.0":                               "*",
		"curl/7.88.1":                        "curl",
		"Scrapy/2.8.0 (+https://scrapy.org)": "Scrapy",
		"python-requests/2.28.1":             "python-requests",
		"Wget/1.21.3":                        "Wget",
		"Go-http-client/1.1":                 "Go-http-client",
		"ExampleBot":                         "ExampleBot",
		"CCBot/2.0 (https://commoncrawl.org/faq/)":      "CCBot",
		"facebookexternalhit/1.1 (+http://example.com)": "facebookexternalhit",
		"Googlebot-Image/1.0":                           "Googlebot-Image",
		"Mozilla/5.0":                                   "*",
		"Mozilla/":                                      "*",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)":                                                                                                  "Googlebot",
		"Mozilla/5.0 (compatible;PetalBot;+https://webmaster.petalsearch.com/site/petalbot)":                                                                                        "PetalBot",
		"mozilla/5.0 (COMPATIBLE; ExampleBot)":                                                                                                                                      "ExampleBot",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; GPTBot/1.2; +https://openai.com/gptbot)":                                                                    "GPTBot",
		"Mozilla/5.0 AppleWebKit/537.36 (KHTML, like Gecko; compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm) Chrome/116.0 Safari/537.36":                                  "bingbot",
		"Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15_5) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/13.1.1 Safari/605.1.15 (Applebot/0.1; +http://www.apple.com/go/applebot)": "Applebot",
		"Mozilla/5.0 (Linux; Android 5.0) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36 (compatible; Bytespider; spider-feedback@bytedance.com)":                      "Bytespider",
		"Mozilla/5.0 (Linux; Android 5.0; spider@example.com) AppleWebKit/537.36 (KHTML, like Gecko) Mobile Safari/537.36":                                                          "*",
		"Mozilla/5.0 (X11; Linux x86_64; Storebot-Google/1.0) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/79.0.3945.88 Safari/537.36":                                             "Storebot-Google",
		"Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0 Safari/537.36 Acme/1.0 (+https://acme.example/about)":                                  "Acme",
		"Mozilla/5.0 (X11; Acme/2.1 +https://acme.example/about)":                                                                                                                   "Acme",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64; rv:121.0) Gecko/20100101 Firefox/121.0":                                                                                          "*",
		"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) HeadlessChrome/120.0 Safari/537.36":                                                       "HeadlessChrome",
		"Mozilla/5.0 (compatible; MSIE 9.0; Windows NT 6.1; Trident/5.0)":                                                                                                           "*",
		"Mozilla/4.0 (compatible; MSIE 6.0; Windows NT 5.1; FooCrawler/1.0)":                                                                                                        "FooCrawler",
		"Mozilla/5.0 (((": "*",
	} {
		if got := productToken(ua); got != want {
			t.Errorf("%q: %q, want %q", ua, got, want)
		}
	}
}

func TestHostileUserAgents(t *testing.T) {
	for _, ua := range []string{
		strings.Repeat("a", 65), strings.Repeat("a", 64<<10),
		"Mozilla/5.0 (compatible; " + strings.Repeat("bot", 20<<10) + ")", "Mozilla/5.0 " + strings.Repeat("(", 64<<10),
		"Mozilla/5.0 (" + strings.Repeat("compatible;", 6<<10) + "MSIE)", "Mozilla/5.0 " + strings.Repeat("compatible U ", 5<<10),
		"Mozilla/5.0 (KHTML, like Gecko;" + strings.Repeat(" ", 1000) + "Bot)",
	} {
		if got := productToken(ua); got != "*" {
			t.Errorf("%.60q: %.100q", ua, got)
		}
	}
	if got := productToken(strings.Repeat("a", 64) + "/1"); got != strings.Repeat("a", 64) {
		t.Errorf("the longest name is %q", got)
	}
}

func BenchmarkProductToken(b *testing.B) {
	for name, ua := range map[string]string{
		"bot":     "Scrapy/2.8.0 (+https://scrapy.org)",
		"borrows": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
		"browser": "Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36",
		"hostile": "Mozilla/5.0 (" + strings.Repeat("compatible;", 6<<10),
	} {
		b.Run("agent="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				productToken(ua)
			}
		})
	}
}

func FuzzProductToken(f *testing.F) {
	f.Add("Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)")
	f.Add("Scrapy/2.8.0 (+https://scrapy.org)")
	f.Add("Mozilla/5.0 ((;;) \xff compatible;")
	f.Fuzz(func(t *testing.T, ua string) {
		token := productToken(ua)
		if token == "" || len(token) > maxToken || token != "*" && !strings.Contains(ua, token) {
			t.Errorf("%q: token %q", ua, token)
		}
		if isWordOf(browsers, token) || strings.HasPrefix(ua, "Mozilla/") && isWordOf(systems, token) {
			t.Errorf("%q: %q is a browser's or a system's word", ua, token)
		}
	})
}

func TestTokensOfAnIdentity(t *testing.T) {
	named := Identity{ProductTokens: []string{"ExampleBot-Image", "ExampleBot"}}
	if got := named.Tokens("curl/8"); len(got) != 2 || got[0] != "ExampleBot-Image" {
		t.Errorf("an identity's own tokens come first: %q", got)
	}
	unnamed := Default()
	if got := unnamed.Tokens("curl/8"); len(got) != 1 || got[0] != "curl" {
		t.Errorf("without tokens, the request's User-Agent names the bot: %q", got)
	}
}

func TestRewrite(t *testing.T) {
	h := http.Header{"User-Agent": {"curl/8"}}
	(&Identity{}).Rewrite(h)
	if h.Get("User-Agent") != "curl/8" || len(h) != 1 {
		t.Errorf("an identity without headers changed some: %v", h)
	}
	(&Identity{UserAgent: "ExampleBot/1.0", From: "bot@example.org"}).Rewrite(h)
	if h.Get("User-Agent") != "ExampleBot/1.0" || h.Get("From") != "bot@example.org" {
		t.Errorf("headers were not rewritten: %v", h)
	}
}

func TestValidate(t *testing.T) {
	for key, id := range map[string]Identity{
		"product_tokens[0]: ": {ProductTokens: []string{"ExampleBot/1.0"}},
		"product_tokens[1]: ": {ProductTokens: []string{"ExampleBot", ""}},
		"user_agent: ":        {UserAgent: "ExampleBot\r\nX: y"},
		"from: ":              {From: "a\x00b"},
	} {
		if err := id.Validate(); err == nil || !strings.HasPrefix(err.Error(), key) {
			t.Errorf("%+v: %v, want an error about %s", id, err, key)
		}
	}
	good := Identity{ProductTokens: []string{"archive.org_bot", "MJ12bot", "*"}, UserAgent: "ExampleBot/1.0 (+https://example.org/bot)"}
	if err := good.Validate(); err != nil {
		t.Error(err)
	}
}

// A token stands for itself, a User-Agent for the token that the proxy finds in it.
func TestTokenOf(t *testing.T) {
	for agent, want := range map[string]string{
		"ExampleBot":      "ExampleBot",
		"archive.org_bot": "archive.org_bot",
		"*":               "*",
		"ExampleBot/2.1":  "ExampleBot",
		"Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)": "Googlebot",
		"Mozilla/5.0 (X11; Linux x86_64; rv:121.0) Gecko/20100101 Firefox/121.0":   "*",
		"": "*",
	} {
		if got := TokenOf(agent); got != want {
			t.Errorf("%q: %q, want %q", agent, got, want)
		}
	}
}
