package pattern

// MaxEffort is what one search may cost.
const MaxEffort = maxEffort

// Effort is what the search for a path's pattern costs.
func (s *Set) Effort(path string) int {
	var f Search
	f.On(path, func() { f.Match(s) })
	return maxEffort - f.left
}

// Texts are the texts of all patterns of the set's file, in normal form or as written.
func (s *Set) Texts() string { return s.indexes[0].patterns.text }
