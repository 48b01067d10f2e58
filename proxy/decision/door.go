package decision

// Door is the way by which a request has come to the proxy. The zero value is that of those
// who ask the gate without a request.
type Door uint8

// The doors.
const (
	NoDoor      Door = iota
	HTTP             // an absolute-form request
	Connect          // a CONNECT, or a request in its tunnel
	SOCKS            // a request for a connection by SOCKS, or a request in that connection
	Transparent      // a connection whose client knows of no proxy
	FTP              // an absolute-form request for an ftp URL
)

// String is the door's name in the log and in the API; "" for NoDoor.
func (d Door) String() string {
	return [...]string{"", "http", "connect", "socks", "transparent", "ftp"}[d]
}
