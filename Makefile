# make test runs all tests. It says what it needs besides Go, installs that if it
# may (on Debian, as root), and runs every stage even if an earlier one fails.

# The program is built without cgo. The race detector needs it.
export CGO_ENABLED = 0

# Where make build puts the program.
PROGRAM = robotsproxy

.PHONY: build test deps lint unit e2e configs bench-tests bench-once release-tests bench bench-idle bench-robots bench-sealed bench-compare fuzz soak soak-short test-image release test-release screenshots test-clients clients-deps

build:
	go build -o $(PROGRAM) .

test: deps
	@.ci/test

deps:
	@.ci/deps test

# The stages. The timeouts only end tests that hang.

lint:
	@failed=; \
	unformatted=$$(gofmt -l .); [ -z "$$unformatted" ] || { echo "gofmt would change:" $$unformatted; failed=1; }; \
	for module in . test; do (set -x; cd $$module && go vet -tags clients ./... && go tool -modfile=$(CURDIR)/go.mod staticcheck -tags clients ./...) || failed=1; done; \
	[ -z "$$failed" ]

unit:
	CGO_ENABLED=1 go test -race -timeout 90m ./...

e2e:
	cd test && CGO_ENABLED=1 ROBOTSPROXY_TEST_RACE=1 go test -race -parallel 4 -timeout 90m ./e2e ./architecture

configs:
	cd test && go test -timeout 30m ./configs

bench-tests:
	cd test && CGO_ENABLED=1 go test -race -timeout 30m ./bench/...

release-tests:
	cd test && go test -count=1 -timeout 60m ./release/...

soak-short:
	cd test && CGO_ENABLED=1 ROBOTSPROXY_TEST_RACE=1 go test -race -timeout 30m ./soak

bench-once:
	go test -run '^$$' -bench . -benchtime 1x -timeout 30m ./...
	cd test && go test -run '^$$' -bench . -benchtime 1x -timeout 30m ./bench/...

# Whether the proxy holds, while origins, clients, Redis and the disk fail and the proxy is
# killed: five minutes, or as long as FOR says (FOR=1h). SEED repeats a run.
soak: build
	@.ci/deps test
	cd test && go run ./soak -robotsproxy $(abspath $(PROGRAM)) -for $(or $(FOR),5m) $(if $(SEED),-seed $(SEED))

# What a request costs, compared with other proxies: twenty minutes, or three with
# QUICK=1. BENCH adds flags: BENCH="-proxies 'robotsproxy|squid' -cases ^HTTPS".
bench: build
	@.ci/deps bench
	cd test && go run ./bench/proxies -robotsproxy ../robotsproxy $(if $(QUICK),-scale quick) $(BENCH)

# What 10,000 idle connections of each kind cost, and whether other clients notice them: three
# minutes, or half of one with QUICK=1 and 1,000 of each. It is a part of make bench.
bench-idle: build
	cd test && go run ./bench/proxies -robotsproxy ../robotsproxy -cases '^idle connections' -proxies '^robotsproxy$$' $(if $(QUICK),-scale quick)

# How fast robots.txt is parsed and matched, compared with another library.
bench-robots:
	cd test && go test -run '^$$' -bench . -benchmem ./bench

# What sealing costs: a request by the transparent door beside one by CONNECT, and the start of a
# sealed command beside that of another: a minute. It is a part of make bench.
bench-sealed: build
	cd test && go run ./bench/proxies -robotsproxy ../robotsproxy -cases '^sealed' -proxies '^robotsproxy$$' $(if $(QUICK),-scale quick)

# How the packages' benchmarks differ between the revision REV and the working tree.
bench-compare:
	.ci/bench-compare "$(REV)"

# Fuzzes every fuzz target in turn, for the time FOR together: make fuzz FOR=1h.
fuzz:
	@.ci/fuzz

# Makes the archives and packages of a release in dist/, from the commit that is checked out: for six
# platforms, or for those in PLATFORMS (PLATFORMS="linux/amd64 windows/arm64").
release:
	@.ci/deps release
	.ci/release $(PLATFORMS)

# Makes a release twice, in different folders and without what is built already, and compares the
# two; then lints its packages. PLATFORMS as above, with one of Linux.
test-release:
	@.ci/deps test-release
	.ci/test-release $(PLATFORMS)

# Builds the container image and runs it; as root, without a container engine.
test-image:
	.ci/test-image

# Takes the picture of the dashboard in README.md: of ten minutes of traffic, or as long as FOR
# says (FOR=1h).
screenshots:
	@.ci/deps test
	cd test && ROBOTSPROXY_PICTURES=$(CURDIR)/docs ROBOTSPROXY_PICTURES_FOR=$(or $(FOR),10m) go test -count=1 -timeout 90m -run '^TestPictures$$' ./e2e

# Runs the clients and crawlers of docs/clients.md through robotsproxy run, and sealed, beside those
# that read no proxy variables; counts how often they ask again. Has libraries that others wrote verify our signatures, and
# read our web archives.
test-clients: clients-deps .clients/installed
	go test -count=1 -tags clients -run '^TestLibrar' -timeout 5m ./proxy/sign
	cd test && go test -count=1 -tags clients -run '^Test(EveryClient|Librar)' -timeout 30m ./e2e

clients-deps:
	@.ci/deps test-clients

# What comes from npm, in a folder that git ignores.
.clients/installed: test/e2e/testdata/clients/package.json | clients-deps
	mkdir -p .clients
	cp $< .clients
	npm install --prefix .clients --no-package-lock --ignore-scripts=false --no-audit --no-fund
	touch $@
