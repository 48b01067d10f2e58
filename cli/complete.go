package cli

import (
	"github.com/spf13/cobra"

	"robotsproxy/config"
)

// completeFlags has shells complete the values of a command's flags, whichever it has.
func completeFlags(cmd *cobra.Command) {
	for flag, words := range map[string][]string{
		"log-level":   {"debug", "info", "warn", "error"},
		"log-format":  {"auto", "json", "console"},
		"shell":       {"sh", "fish", "powershell", "dotenv"},
		"purpose":     {"search", "ai-input", "ai-train"},
		"content-use": {"immediate", "reference", "full"},
	} {
		if cmd.Flags().Lookup(flag) != nil {
			cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	if cmd.Flags().Lookup("identity") != nil {
		cmd.RegisterFlagCompletionFunc("identity", completeIdentity)
	}
	if cmd.Flags().Lookup("config") != nil {
		cmd.MarkFlagFilename("config", "yaml", "yml")
	}
	if cmd.Flags().Lookup("data-dir") != nil {
		cmd.MarkFlagDirname("data-dir")
	}
	for _, flag := range []string{"agent", "listen", "admin-listen", "allow", "forward", "origin", "since", "until", "from", "to", "except-uid", "expires", "authority"} {
		if cmd.Flags().Lookup(flag) != nil {
			cmd.RegisterFlagCompletionFunc(flag, cobra.NoFileCompletions)
		}
	}
	for _, sub := range cmd.Commands() {
		completeFlags(sub)
	}
}

// completeIdentity completes the names of the configuration's identities.
func completeIdentity(cmd *cobra.Command, _ []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	cfg, err := loadConfig(cmd, config.Default())
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	names := []cobra.Completion{"default"}
	for _, e := range cfg.Identities {
		names = append(names, e.Name)
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
