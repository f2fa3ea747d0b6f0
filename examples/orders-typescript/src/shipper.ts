// Ships orders until Ctrl-C, or until it has shipped so many: `npm run shipper -- 8`.
//
// What does not fit into one parcel is rejected, and becomes a dead letter.

import { type Delivery, connect } from "./queues/index.js";
import type { Order } from "./queues/shop/v1/order_pb.js";

/** How many pieces of an article fit into one parcel. */
const PIECES_MAX = 4;

const count = Number(process.argv[2] ?? Infinity);
const stop = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"] as const) {
  process.once(signal, () => stop.abort());
}

await using queues = await connect(process.env["QWERQ_BROKER"] ?? "localhost:9876");
let shipped = 0;
for await (const order of queues.orders.consume({ group: "shipping", signal: stop.signal })) {
  shipped += ship(order) ? 1 : 0;
  if (shipped === count) {
    break;
  }
}
console.log(`shipped ${shipped} orders`);

/** Whether it was shipped. */
function ship(order: Delivery<Order>): boolean {
  const { id, lines } = order.body;
  const tooMany = lines.find((line) => line.quantity > PIECES_MAX);
  if (tooMany !== undefined) {
    const reason = `${tooMany.quantity} ${tooMany.article} do not fit into one parcel`;
    order.reject(reason);
    console.log(`cannot ship ${id}: ${reason}`);
    return false;
  }
  order.ack();
  console.log(`shipped ${id}`);
  return true;
}
