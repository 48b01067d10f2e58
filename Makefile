# make test is the whole test command. It installs what the tests need where it
# may (Debian, as root) and else says what is missing.

# The race detector wants cgo; the program itself is built without.
export CGO_ENABLED = 0

.PHONY: build test lint unit deps bench test-image test-clients

build:
	go build -o robotsproxy .

test: deps lint unit

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

# How fast robots.txt is read and matched, beside another library.
bench:
	cd bench && go test -run '^$$' -bench . -benchmem

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
