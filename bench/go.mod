module robotsproxy/bench

go 1.26.0

require (
	github.com/elazarl/goproxy v1.9.2
	github.com/temoto/robotstxt v1.1.2
	golang.org/x/sys v0.49.0
	robotsproxy v0.0.0
)

require (
	golang.org/x/net v0.62.0 // indirect
	golang.org/x/text v0.43.0 // indirect
)

replace robotsproxy => ../
