# The broker, its compiler and its tools in one image: docker build -t qwer-q .
#
# The binary is linked statically, LMDB and the C library included, so the image holds it and nothing else: no shell, no packages, nothing
# to keep patched but the binary. It is glibc and not musl that is linked: its allocator is the one that all figures were measured with.
FROM rust:1.95.0-slim-bookworm AS toolchain
WORKDIR /src

# The manifests and an empty file for every target that they name. What is copied from here changes when a dependency does, not when code does.
FROM toolchain AS manifests
COPY . .
RUN find . -name Cargo.toml -o -name Cargo.lock \
        -o -regex '.*/\(src/\(lib\|main\|bin/[^/]*\)\|\(benches\|tests\)/\([^/]*\|[^/]*/main\)\)\.rs' \
        | while read -r file; do \
            mkdir -p "/manifests/${file%/*}"; \
            case $file in *.rs) echo 'fn main() {}' > "/manifests/$file" ;; *) cp "$file" "/manifests/$file" ;; esac; \
        done

FROM toolchain AS build
# `release` is built faster; `dev` faster still, with debug assertions.
ARG PROFILE=dist
# The layer of the dependencies.
COPY --from=manifests /manifests .
RUN cargo build --locked --profile "$PROFILE" --package qwer-q --bin qwer-q
COPY . .
# Cargo goes by times, and the files may be older than what was just built from empty ones.
RUN find . -name '*.rs' -not -path './target/*' -exec touch {} + \
    && cargo rustc --locked --profile "$PROFILE" --package qwer-q --bin qwer-q -- -C target-feature=+crt-static -C strip=symbols \
    && mkdir -p /out/empty \
    && cp target/*/qwer-q /out/qwer-q

FROM scratch
LABEL org.opencontainers.image.title="qwer-q" \
      org.opencontainers.image.description="The typed, docker-first message queue: broker, schema registry and compiler in one binary" \
      org.opencontainers.image.version="0.1.0" \
      org.opencontainers.image.source="https://github.com/jonas/qwer-q" \
      org.opencontainers.image.documentation="https://github.com/jonas/qwer-q/blob/main/docs/operating.md" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /out/qwer-q /usr/local/bin/qwer-q
# A new volume takes its owner from here. /tmp is where `qwer-q bench` puts the data directory of its broker.
COPY --from=build --chown=10001:10001 /out/empty /data
COPY --from=build --chown=10001:10001 /out/empty /tmp
# Inside a container loopback is nobody's; who may reach the ports is decided by what `docker run` publishes.
ENV PATH=/usr/local/bin QWERQ_DATA_DIR=/data QWERQ_BIND=0.0.0.0
# By number, so that Kubernetes can see that it is not root.
USER 10001:10001
VOLUME /data
# Broker, HTTP, Raft.
EXPOSE 9876 9877 9878
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s CMD ["qwer-q", "health"]
ENTRYPOINT ["qwer-q"]
CMD ["serve"]
