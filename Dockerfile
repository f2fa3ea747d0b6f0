# The broker, its compiler and its tools in one small image: docker build -t qwer-q .
# The release of Debian is the same in both stages, so that the binary finds the C library that it was linked with.
FROM rust:1.95.0-slim-bookworm AS build
WORKDIR /src
COPY . .
# Dependencies and their builds stay in the cache between builds; the binary is copied out, since a cache is not a layer.
RUN --mount=type=cache,target=/usr/local/cargo/registry \
    --mount=type=cache,target=/src/target \
    cargo build --release --locked --package qwer-q --bin qwer-q \
    && cp target/release/qwer-q /usr/local/bin/qwer-q

FROM debian:bookworm-slim
LABEL org.opencontainers.image.title="qwer-q" \
      org.opencontainers.image.description="The typed, docker-first message queue: broker, schema registry and compiler in one binary" \
      org.opencontainers.image.source="https://github.com/jonas/qwer-q" \
      org.opencontainers.image.licenses="Apache-2.0"
RUN groupadd --system --gid 10001 qwerq \
    && useradd --system --uid 10001 --gid qwerq --no-create-home --home-dir /data --shell /usr/sbin/nologin qwerq \
    && install --directory --owner qwerq --group qwerq --mode 0750 /data
COPY --from=build /usr/local/bin/qwer-q /usr/local/bin/qwer-q
# Inside a container loopback is nobody's; who may reach the ports is decided by what `docker run` publishes.
ENV QWERQ_DATA_DIR=/data QWERQ_BIND=0.0.0.0
USER qwerq
VOLUME /data
# Broker, HTTP, Raft.
EXPOSE 9876 9877 9878
HEALTHCHECK --interval=5s --timeout=3s --start-period=30s CMD ["qwer-q", "health"]
ENTRYPOINT ["qwer-q"]
CMD ["serve"]
