#!/bin/sh
# The order pipeline in three languages, from start to end: examples/pipeline/run.sh
#
# Needs qwer-q, cargo, npm and go on the PATH. Without QWERQ_BROKER it starts a broker of its own and throws it away in the end.
set -eu
cd "$(dirname "$0")/.."

work=$(mktemp -d)
running=
clean_up() {
    # Those that have ended by themselves are gone already.
    for process in $running; do kill "$process" 2>/dev/null || true; done
    wait
    rm -rf "$work"
}
trap clean_up EXIT
trap 'exit 1' INT TERM

echo "== building"
cargo build --quiet --package example-orders --bin publisher
(cd orders-typescript && { [ -d node_modules ] || npm ci --silent --no-audit --no-fund --ignore-scripts; } && npm run --silent build)
(cd orders-go && go build -o "$work/deadletters" ./cmd/deadletters)

if [ -z "${QWERQ_BROKER:-}" ]; then
    mkfifo "$work/ready"
    qwer-q serve --port 0 --metrics-port 0 --data-dir "$work/data" >"$work/ready" 2>"$work/broker.log" &
    running="$!"
    # Its one line on stdout comes when it is ready; the end of the file, when it could not start.
    read -r line <"$work/ready" || { cat "$work/broker.log" >&2; exit 1; }
    QWERQ_BROKER=$(echo "$line" | sed 's/.*broker \([^,]*\),.*/\1/')
    export QWERQ_BROKER
fi
qwer-q schema register -q orders -p orders/proto/shop/v1/order.proto -I orders/proto -m shop.v1.Order

echo "== six orders of one to six pieces; a parcel holds four"
# Four orders fit. The other two are rejected, become dead letters, and are split in two each: eight in the end.
node orders-typescript/build/shipper.js 8 &
shipper=$!
"$work/deadletters" &
letters=$!
running="$running $shipper $letters"
cargo run --quiet --package example-orders --bin publisher 6

while kill -0 "$shipper" 2>/dev/null; do
    kill -0 "$letters" 2>/dev/null || { echo "the dead-letter worker has ended" >&2; exit 1; }
    sleep 0.2
done
wait "$shipper"
kill "$letters"
wait "$letters"

echo "== what is left"
qwer-q queue list
