package config

import (
	"reflect"
	"strings"
	"testing"

	"robotsproxy/config/strictyaml"
	"robotsproxy/proxy/gate"
	"robotsproxy/proxy/identity"
	"robotsproxy/robots/preference"
)

func TestPreferences(t *testing.T) {
	c, err := loadText(t, `identities:
  - {name: index, purposes: [search, ai-input], content_use: reference}
default_identity: {purposes: [ai-train]}
preferences: {mode: enforce, sources: [tdmrep, response], response: refuse}`)
	if err != nil {
		t.Fatal(err)
	}
	want := gate.Preferences{Mode: identity.Enforce, Sources: []preference.Source{preference.TDMRep, preference.Response}, Response: gate.Refuse}
	if !reflect.DeepEqual(c.Preferences, want) {
		t.Errorf("preferences: got %+v, want %+v", c.Preferences, want)
	}
	index := preference.Use{Purposes: preference.PurposesOf(preference.Search, preference.AIInput), Content: preference.Reference}
	if got := c.Identities[0].Use(); got != index {
		t.Errorf("the identity declares %+v, want %+v", got, index)
	}
	if got, want := c.DefaultIdentity.Use(), (preference.Use{Purposes: preference.PurposesOf(preference.AITrain)}); got != want {
		t.Errorf("the default identity declares %+v, want %+v", got, want)
	}
	if len(c.Warnings()) > 0 {
		t.Errorf("warnings: %v", c.Warnings())
	}
	if keys := c.NeedsRestart(Default()); len(keys) > 0 {
		t.Errorf("keys that need a restart: %v", keys)
	}
}

func TestFaultsOfPreferences(t *testing.T) {
	for text, want := range map[string]string{
		"default_identity: {purposes: [search, train]}":            `FILE:1:39: default_identity.purposes[1]: "train" is none of search, ai-input, ai-train`,
		"default_identity: {purposes: [search, ai-input, search]}": "FILE:1:49: default_identity.purposes[2]: search is there twice; remove one",
		"default_identity: {purposes: search}":                     "FILE:1:30: default_identity.purposes: this must be a list, for example [a, b]",
		"default_identity: {content_use: all, purposes: [search]}": `FILE:1:33: default_identity.content_use: "all" is none of immediate, reference, full`,
		"identities: [{name: a, content_use: full}]":               "FILE:1:37: identities[0].content_use: it counts only with purposes; declare purposes too, or remove it",
		"preferences: {mode: on}":                                  `FILE:1:21: preferences.mode: "on" is none of enforce, report, off`,
		"preferences: {sources: [tdmrep, robots]}":                 `FILE:1:33: preferences.sources[1]: "robots" is none of content-signal, content-usage, tdmrep, response`,
		"preferences: {sources: [tdmrep, tdmrep]}":                 "FILE:1:33: preferences.sources[1]: tdmrep is there twice; remove one",
		"preferences: {response: log}":                             `FILE:1:25: preferences.response: "log" is none of record, refuse`,
	} {
		_, err := loadText(t, text)
		if err == nil || err.Error() != want {
			t.Errorf("%s:\n%v\nwant\n%s", text, err, want)
		}
	}
}

func TestWarningsOfPreferences(t *testing.T) {
	const declares = "\ndefault_identity: {purposes: [search]}\n"
	for text, want := range map[string]string{
		"preferences: {response: refuse}":                                                          "FILE:1:25: preferences.response: no response is refused in mode report",
		"preferences: {mode: enforce, response: refuse, sources: [tdmrep]}":                        "FILE:1:40: preferences.response: no response is refused, because sources does not name response",
		"preferences: {mode: enforce, response: refuse}" + declares + "https: {mode: tunnel}":      "FILE:2:30: default_identity.purposes: https.mode is tunnel, so what responses in a tunnel say cannot be heeded, and https.mixed_tunnel decides on all tunnels of the identity default",
		"preferences: {mode: enforce, response: refuse}" + declares + "https: {mode: when_needed}": "",
		"preferences: {mode: enforce, response: refuse}" + "\nhttps: {mode: tunnel}":               "",
		"preferences: {mode: enforce}" + declares + "https: {mode: tunnel}":                        "",
		"preferences: {mode: report, response: record}" + declares + "https: {mode: intercept}":    "",
	} {
		c, err := loadText(t, text)
		if err != nil {
			t.Fatal(err)
		}
		got := strictyaml.Errors(c.Warnings()).Error()
		if !strings.HasPrefix(got, want) || want == "" && got != "" {
			t.Errorf("%s: the warnings are %q, want %q", text, got, want)
		}
	}
}
