package config

import (
	"fmt"
	"os"
	"time"

	"robotsproxy/config/strictyaml"
)

// Load starts from base, applies the file at path and then the settings in order, and
// validates the result. If path is "" there is no file. An error is always of type
// [strictyaml.Errors] and has all faults.
func Load(base Config, path string, settings ...strictyaml.Setting) (Config, error) {
	var text []byte
	if path != "" {
		var err error
		if text, err = os.ReadFile(path); err != nil {
			return Config{}, strictyaml.Errors{{Message: fmt.Sprintf("read the configuration: %v; name its file with --config or ROBOTSPROXY_CONFIG", err)}}
		}
	}
	return Parse(base, path, text, settings...)
}

// Parse is [Load] of a file with this text. Errors call the file by its path, and relative paths
// in it are relative to its folder.
func Parse(base Config, path string, text []byte, settings ...strictyaml.Setting) (Config, error) {
	c := base
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
	c.warnings = file.Locate(c.warn(time.Now()))
	return c, nil
}
