package configs

import (
	"context"
	"path"
	"slices"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"
)

// composeProject reads compose/compose.yaml, against Compose's schema.
func composeProject(t *testing.T) *types.Project {
	t.Helper()
	project, err := loader.LoadWithContext(context.Background(), types.ConfigDetails{
		WorkingDir:  "compose",
		ConfigFiles: []types.ConfigFile{{Filename: "compose/compose.yaml", Content: []byte(read(t, "compose/compose.yaml"))}},
	})
	must(t, err)
	return project
}

// composeSetup uses the image's own configuration, which compose.yaml does not change.
func composeSetup(t *testing.T) setup {
	t.Helper()
	project := composeProject(t)
	proxy, scraper := project.Services["robotsproxy"], project.Services["scraper"]
	config, text := imageConfig(t)
	s := setup{
		name: "compose", etc: path.Dir(config), config: path.Base(config),
		files:        map[string]string{path.Base(config): text},
		health:       proxy.HealthCheck.Test[1:],
		grace:        time.Duration(*proxy.StopGracePeriod),
		scraper:      map[string]string{},
		scraperTrust: scraper.Volumes[0].Target,
	}
	s.trust = s.settings(t).HTTPS.TrustDir
	for name, value := range scraper.Environment {
		s.scraper[name] = *value
	}
	return s
}

func TestComposeServicesAreRestricted(t *testing.T) {
	for name, s := range composeProject(t).Services {
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) || !slices.Contains(s.SecurityOpt, "no-new-privileges:true") || s.Privileged {
			t.Errorf("%s has more rights than it needs", name)
		}
	}
}

func TestComposeScraperHasNoOtherWayOut(t *testing.T) {
	project := composeProject(t)
	proxy, scraper := project.Services["robotsproxy"], project.Services["scraper"]
	shared := false
	for name := range scraper.Networks {
		if !project.Networks[name].Internal {
			t.Errorf("the scraper is in the network %s, which leads out", name)
		}
		_, here := proxy.Networks[name]
		shared = shared || here
	}
	if !shared || scraper.NetworkMode != "" {
		t.Error("the scraper has no network with the proxy alone")
	}
	if len(proxy.Ports) > 0 {
		t.Error("the proxy can be reached by others")
	}
}

func TestComposeSharesTheTrustFolderAlone(t *testing.T) {
	project := composeProject(t)
	proxy, scraper := project.Services["robotsproxy"], project.Services["scraper"]
	settings := composeSetup(t).settings(t)
	volumes := map[string]string{} // by path in the proxy
	for _, v := range proxy.Volumes {
		volumes[v.Target] = v.Source
	}
	if volumes[settings.DataDir] == "" || volumes[settings.HTTPS.TrustDir] == "" {
		t.Errorf("the proxy's volumes %v don't hold what it writes", volumes)
	}
	for _, v := range scraper.Volumes {
		if v.Type != types.VolumeTypeVolume || v.Source != volumes[settings.HTTPS.TrustDir] || !v.ReadOnly {
			t.Errorf("the scraper has %+v", v)
		}
	}
	if d := scraper.DependsOn["robotsproxy"]; d.Condition != types.ServiceConditionHealthy {
		t.Errorf("the scraper is started when the proxy is %q", d.Condition)
	}
}
