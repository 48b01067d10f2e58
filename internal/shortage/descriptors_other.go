//go:build !unix

package shortage

// Descriptors is how many files and connections this process may have open at once; 0
// means that the system does not say.
func Descriptors() int64 { return 0 }
