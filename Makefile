# make test is the whole test command. It installs what the tests need where it
# may (Debian, as root) and else says what is missing.

# The race detector wants cgo; the program itself is built without.
export CGO_ENABLED = 0

.PHONY: build test lint unit bench-once deps bench bench-deps bench-robots bench-compare test-image test-clients

build:
	go build -o robotsproxy .

test: deps lint unit bench-once

lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change:" $$unformatted; exit 1; fi
	go vet -tags clients ./...
	go tool staticcheck -tags clients ./...
	cd bench && go vet ./...
	cd configs && go vet ./...

unit:
	CGO_ENABLED=1 go test -race -timeout 20m ./...
	cd bench && CGO_ENABLED=1 go test -race -timeout 5m ./...
	cd configs && go test -timeout 10m ./...

# Each benchmark once, so that none rots.
bench-once:
	go test -run '^$$' -bench . -benchtime 1x -timeout 5m ./...
	cd bench && go test -run '^$$' -bench . -benchtime 1x -timeout 5m ./...

# command:package, as Debian names them; a file may stand for a command
NEEDS = gcc:gcc gcc:libc6-dev curl:curl scrapy:python3-scrapy openssl:openssl vsftpd:vsftpd redis-server:redis-server chromium:chromium systemd-analyze:systemd promtool:prometheus

deps:
	@missing=; for need in $(NEEDS); do \
		command -v $${need%%:*} >/dev/null || [ -e $${need%%:*} ] || missing="$$missing $${need##*:}"; \
	done; \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$missing; \
	else \
		echo "the tests need more than there is here; install:$$missing"; exit 1; \
	fi

# What a request costs, beside other proxies: some nine minutes, or two with
# QUICK=1. BENCH is for more flags: BENCH="-proxies 'robotsproxy|squid' -cases ^HTTPS".
bench: build bench-deps
	cd bench && go run ./proxies -robotsproxy ../robotsproxy $(if $(QUICK),-scale quick) $(BENCH)

# The other proxies. What cannot be installed is left out, and the tables say so.
NEEDS_BENCH = squid:squid-openssl tinyproxy:tinyproxy mitmdump:mitmproxy

bench-deps:
	@missing=; for need in $(NEEDS_BENCH); do \
		command -v $${need%%:*} >/dev/null || missing="$$missing $${need##*:}"; \
	done; \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		apt-get update; \
		for package in $$missing; do DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends $$package; done; \
	fi; true

# How fast robots.txt is read and matched, beside another library.
bench-robots:
	cd bench && go test -run '^$$' -bench . -benchmem .

# How the packages' benchmarks differ between the revision REV and the working tree.
bench-compare:
	.ci/bench-compare "$(REV)"

# Builds the container image and runs it; as root, without a container engine.
test-image:
	.ci/test-image

# Runs every client of the README's table through robotsproxy run.
test-clients: NEEDS = $(CLIENTS)
test-clients: deps .clients/installed
	go test -count=1 -tags clients -run '^TestEveryClient' -timeout 10m .

PYTHON = /usr/lib/python3/dist-packages
CLIENTS = curl:curl wget:wget git:git scrapy:python3-scrapy ruby:ruby php:php-cli /usr/lib/php/*/curl.so:php-curl \
	$(PYTHON)/requests:python3-requests $(PYTHON)/httpx:python3-httpx $(PYTHON)/aiohttp:python3-aiohttp \
	node:nodejs npm:npm javac:default-jdk-headless chromium:chromium certutil:libnss3-tools

# What comes from npm, in a folder that git ignores.
.clients/installed: testdata/clients/package.json | deps
	mkdir -p .clients
	cp $< .clients
	npm install --prefix .clients --no-package-lock --ignore-scripts=false --no-audit --no-fund
	touch $@
