package summary

import (
	"errors"
	"fmt"

	"robotsproxy/internal/printable"
	"robotsproxy/internal/wholefile"
)

// CheckFile returns an error if WriteFile could not write the file now. It leaves the file
// as it is.
func CheckFile(path string) error {
	if path == "-" {
		return errors.New("standard output is the command's own; name a file, or ./- for one of that name")
	}
	return wholefile.Check(path)
}

// WriteFile writes the summary as JSON. Readers of the file find what was there before or
// all of the summary.
func (s *Summary) WriteFile(path string) error {
	if err := s.replace(path); err != nil {
		return fmt.Errorf("writing the summary to %w", err)
	}
	return nil
}

func (s *Summary) replace(path string) error {
	text, err := printable.Marshal(s)
	if err != nil {
		return err
	}
	file, err := wholefile.Create(path)
	if err != nil {
		return err
	}
	defer file.Discard()
	if _, err := file.Write(text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return file.Commit()
}
