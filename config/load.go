package config

import (
	"errors"
	"fmt"
	"os"
	"time"

	"robotsproxy/config/strictyaml"
	"robotsproxy/internal/keyerr"
)

// Load starts from base, applies the file at path and then the settings in order, and
// validates the result. If path is "" there is no file. An error is always of type
// [strictyaml.Errors] and has all faults.
func Load(base Config, path string, settings ...strictyaml.Setting) (Config, error) {
	var text []byte
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return Config{}, strictyaml.Errors{{Message: fmt.Sprintf("read the configuration: %v", err)}}
		}
	}
	return load(base, path, text, settings)
}

func load(c Config, path string, text []byte, settings []strictyaml.Setting) (Config, error) {
	file := strictyaml.New(path, text)
	file.Decode(&c)
	for _, setting := range settings {
		file.Set(setting, &c)
	}
	file.Refuse(c.Validate())
	if faults := file.Faults(); faults != nil {
		return Config{}, faults
	}
	c.file = file
	c.warnings = file.Locate(errors.Join(
		keyerr.In("pace", c.Pace.Warnings()),
		keyerr.In("preferences", c.Preferences.Warnings()),
		c.warnUnread(),
		c.warnEmptyDirectory(),
		c.warnExpiring(time.Now()),
	))
	return c, nil
}
