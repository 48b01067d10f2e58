# make test is the whole test command. It installs what the tests need where it
# may (Debian, as root) and else says what is missing.

# The race detector wants cgo; the program itself is built without.
export CGO_ENABLED = 0

.PHONY: build test lint unit deps bench test-image

build:
	go build -o robotsproxy .

test: deps lint unit

lint:
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt would change:" $$unformatted; exit 1; fi
	go vet ./...
	go tool staticcheck ./...
	cd bench && go vet ./...

unit:
	CGO_ENABLED=1 go test -race -timeout 20m ./...
	cd bench && CGO_ENABLED=1 go test -race -timeout 5m ./...

# command:package, as Debian names them
NEEDS = gcc:gcc gcc:libc6-dev curl:curl scrapy:python3-scrapy openssl:openssl vsftpd:vsftpd redis-server:redis-server chromium:chromium

deps:
	@missing=; for need in $(NEEDS); do \
		command -v $${need%%:*} >/dev/null || missing="$$missing $${need##*:}"; \
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
