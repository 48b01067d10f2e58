// Package cover lays files over others in the mount namespace of a sealed command, where
// the command alone sees them: a CA over the roots that programs trust, and nothing over
// the Unix sockets that lead out of its network.
package cover

// Trust has programs that heed no variable trust a CA. Each is the absolute path of a
// file that the command may read; "" leaves what is there.
type Trust struct {
	// CA is one certificate in PEM. The policies of Chromium, Chrome and Firefox install it.
	CA string
	// Bundle is in PEM, and lies over the system's own bundle files.
	Bundle string
	// Store lies over Java's own trust store. Java opens that without a password, so
	// it must have none, nor be encrypted.
	Store string
}
