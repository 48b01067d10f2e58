package robots_test

import (
	"fmt"

	"robotsproxy/robots"
)

func Example() {
	file := robots.Parse([]byte(`
User-agent: *
Disallow: /private/
Allow: /private/*.html$
`))
	group, _ := file.Group([]string{"ExampleBot-Image", "ExampleBot"})
	for _, url := range []string{"https://example.com/private/a.html", "https://example.com/private/a.html?b", "https://example.com/"} {
		target, err := robots.ParseTarget(url)
		if err != nil {
			fmt.Println(err)
			continue
		}
		rule, matches := group.Match(target.Path)
		if !matches {
			fmt.Println(target.Path, "meets no rule")
			continue
		}
		fmt.Printf("%s meets line %d, %s\n", target.Path, rule.Line, rule)
	}
	// Output:
	// /private/a.html meets line 4, Allow: /private/*.html$
	// /private/a.html?b meets line 3, Disallow: /private/
	// / meets no rule
}
