package cli

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"robotsproxy/config"
	"robotsproxy/proxy/sign"
	"robotsproxy/proxy/sign/directory"
	"robotsproxy/robots"
)

func keysDirectoryCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "directory",
		Short: "Write the key directory as files for a static host",
		Long: `Write the key directory, which verifiers fetch from the agent that identities name, as
files for a static host: the keys, for / and for the well-known path, and the header
fields that sign them, in _headers (Netlify, Cloudflare Pages) and nginx.conf (to be
included). The host must send the keys octet by octet as they are, and the header fields
with them. Run the command again after each change of keys, and before the signatures
expire. "robotsproxy serve" can serve the directory itself: see directory_listen.`,
		Example: `  robotsproxy keys directory --config robotsproxy.yaml -o public
  robotsproxy keys directory --config robotsproxy.yaml --authority bot.example.org --expires 30d`,
		Args: cobra.NoArgs,
	}
	addSettings(cmd)
	authority := cmd.Flags().String("authority", "", "host, with its port unless that is 443, of the agent; needed if identities name several")
	expires := cmd.Flags().String("expires", "90d", "how long the signatures hold, more than an hour")
	output := cmd.Flags().StringP("output", "o", "key-directory", "folder for the files; made if there is none")
	cmd.RunE = withExitCode(func(cmd *cobra.Command, _ []string) error {
		hold, err := config.ParseDuration(*expires)
		if err == nil && hold <= directory.MaxAge {
			err = fmt.Errorf("%s is too short, since caches may keep the directory for %v", *expires, directory.MaxAge)
		}
		if err != nil {
			return exit{exitUsage, fmt.Errorf("--expires: %w", err)}
		}
		identities, err := loadIdentities(cmd)
		if err != nil {
			return err
		}
		agent, err := chooseAgent(directory.AgentsOf(identities.All()), *authority)
		if err != nil {
			return exit{exitUsage, err}
		}
		now := time.Now()
		signed, err := agent.Sign(now, hold)
		if err != nil {
			return err
		}
		for _, file := range staticFiles(agent.Origin, signed, now.Add(hold)) {
			path := filepath.Join(*output, filepath.FromSlash(file.name))
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, file.content, 0o644)); err != nil {
				return fmt.Errorf("write the key directory: %w", err)
			}
			fmt.Fprintln(cmd.OutOrStdout(), path)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "Next: put these files on the host of %s. The signatures expire on %s: run this again before.\n",
			agent.Origin, now.Add(hold).UTC().Format(time.DateOnly))
		return nil
	})
	return cmd
}

// chooseAgent returns the agent with this authority; the only one if it is "".
func chooseAgent(agents []directory.Agent, authority string) (directory.Agent, error) {
	var known []string
	for _, a := range agents {
		known = append(known, a.Origin.Authority())
	}
	if authority == "" && len(agents) == 1 {
		return agents[0], nil
	}
	if authority == "" && len(agents) == 0 {
		return directory.Agent{}, errNobodySigns
	}
	if authority == "" {
		return directory.Agent{}, fmt.Errorf("the identities name several agents; choose one with --authority: %s", strings.Join(known, ", "))
	}
	origin, err := robots.ParseOrigin("https://" + authority)
	if err != nil {
		return directory.Agent{}, fmt.Errorf("--authority: %w", err)
	}
	i := slices.IndexFunc(agents, func(a directory.Agent) bool { return a.Origin == origin })
	switch {
	case i >= 0:
		return agents[i], nil
	case len(agents) == 0:
		return directory.Agent{}, errNobodySigns
	}
	return directory.Agent{}, fmt.Errorf("--authority: no identity names the agent %s; they name %s", origin, strings.Join(known, ", "))
}

// A staticFile is a file of a directory on a static host.
type staticFile struct {
	name    string // with slashes, relative to the host's root
	content []byte
}

// staticFiles are the files that serve a signed directory of an origin.
func staticFiles(origin robots.Origin, d sign.Directory, expires time.Time) []staticFile {
	about := fmt.Sprintf("# The key directory of %s; its signatures expire on %s.\n", origin, expires.UTC().Format(time.DateOnly))
	h := http.Header{}
	d.Set(h)
	h.Set("Cache-Control", directory.CacheControl)
	return []staticFile{
		{"index.html", d.Body}, // what static hosts send for /
		{strings.TrimPrefix(sign.DirectoryPath, "/"), d.Body},
		{"_headers", netlifyHeaders(about, h)},
		{"nginx.conf", nginxConfig(about, h)},
	}
}

// publishedFields are the names of the header fields, in the order in which people read them.
var publishedFields = []string{"Content-Type", "Cache-Control", "Content-Digest", "Signature-Input", "Signature"}

// netlifyHeaders is the file _headers, which Netlify and Cloudflare Pages read.
func netlifyHeaders(about string, h http.Header) []byte {
	text := about
	for _, path := range []string{"/", sign.DirectoryPath} {
		text += path + "\n"
		for _, name := range publishedFields {
			text += "  " + name + ": " + h.Get(name) + "\n"
		}
	}
	return []byte(text)
}

// nginxConfig is a part of the server of the agent's host. No value has a quotation mark of
// nginx's, or a $.
func nginxConfig(about string, h http.Header) []byte {
	text := about + "# Include this in its server, and have root of that server name the folder with these files.\n" +
		"location = / {\n    rewrite ^ " + sign.DirectoryPath + " last;\n}\n" +
		"location = " + sign.DirectoryPath + " {\n    default_type " + h.Get("Content-Type") + ";\n    charset off;\n    gzip off;\n"
	for _, name := range publishedFields[1:] {
		text += "    add_header " + name + " '" + h.Get(name) + "';\n"
	}
	return []byte(text + "}\n")
}
