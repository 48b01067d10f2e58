# robotsproxy in an image of its own: one static binary, no shell, no root.
#
#   docker build -t robotsproxy .
#   docker run --read-only -v robotsproxy:/data -v robotsproxy-trust:/trust -p 127.0.0.1:8080:8080 robotsproxy
#
# An image to publish says what it is made of:
#
#   docker build --build-arg VERSION=v1.2.3 --build-arg REVISION=$(git rev-parse HEAD) -t robotsproxy:1.2.3 .

ARG GO_IMAGE=golang:1.26-bookworm

# Go compiles for other platforms by itself, so this stage always runs on the machine's own.
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG TARGETOS TARGETARCH VERSION=devel REVISION=unknown
RUN package=$(go list ./internal/build) \
    && CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -trimpath \
        -ldflags "-s -w -X $package.version=$VERSION -X $package.commit=$REVISION" -o /out/robotsproxy . \
    && mkdir -p /out/data /out/trust /out/etc/robotsproxy \
    && cp configs/image.yaml /out/etc/robotsproxy/config.yaml

FROM scratch
ARG VERSION=devel REVISION=unknown
LABEL org.opencontainers.image.title=robotsproxy \
      org.opencontainers.image.description="A forward proxy that makes bots obey robots.txt" \
      org.opencontainers.image.version=$VERSION \
      org.opencontainers.image.revision=$REVISION
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/ca-certificates.crt
COPY --from=build /out/robotsproxy /robotsproxy
COPY --from=build /out/etc/robotsproxy /etc/robotsproxy
COPY --from=build --chown=65532:65532 /out/data /data
COPY --from=build --chown=65532:65532 /out/trust /trust
USER 65532:65532
ENV ROBOTSPROXY_CONFIG=/etc/robotsproxy/config.yaml
VOLUME /data /trust
EXPOSE 8080 9090
HEALTHCHECK --interval=10s --timeout=6s --start-period=5s CMD ["/robotsproxy", "healthcheck"]
ENTRYPOINT ["/robotsproxy"]
CMD ["serve"]
