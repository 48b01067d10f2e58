package gate

// Door is the way by which a request has come to the proxy. The zero value is no door, as
// for those who ask the gate without a request.
type Door string

// The doors.
const (
	HTTP        Door = "http"        // an absolute-form request
	Connect     Door = "connect"     // a tunnel that a CONNECT has opened, or the CONNECT itself
	SOCKS       Door = "socks"       // a connection that SOCKS has opened, or the request for one
	Transparent Door = "transparent" // a connection that was led here without the client's knowledge
	FTP         Door = "ftp"         // an absolute-form request for an ftp URL
)
