# robotsproxy in an image of its own: one static binary, no shell, no root.
#
#   docker build -t robotsproxy .
#   docker run --read-only -v robotsproxy:/data -v robotsproxy-trust:/trust -p 127.0.0.1:8080:8080 robotsproxy

ARG GO_IMAGE=golang:1.26-bookworm

FROM ${GO_IMAGE} AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o /out/robotsproxy . \
    && mkdir -p /out/data /out/trust /out/etc/robotsproxy \
    && cp configs/image.yaml /out/etc/robotsproxy/config.yaml

FROM scratch
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
