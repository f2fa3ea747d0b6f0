// Bills orders until Ctrl-C: `npm run consumer`.

import { type Delivery, connect } from "./queues/index.js";
import type { Order } from "./queues/shop/v1/order_pb.js";

const stop = new AbortController();
process.once("SIGINT", () => stop.abort());

await using queues = await connect(process.env["QWERQ_BROKER"] ?? "localhost:9876");
const orders = queues.orders.consume({ group: "billing", signal: stop.signal });
await orders.ready;
console.log("waiting for orders");

for await (const order of orders) {
  handle(order);
}
console.log("stopped");

/** Acknowledges an order when it is billed. When that fails, the order comes again after the queue's `retry_backoff`. */
function handle(order: Delivery<Order>): void {
  const { id } = order.body;
  const problem = bill(order.body, order.attempt);
  if (problem === undefined) {
    console.log(`billed ${id}, attempt ${order.attempt}`);
    order.ack();
  } else {
    console.log(`cannot bill ${id}, attempt ${order.attempt}: ${problem}`);
    order.nack({ reason: problem });
  }
}

/** Stands for a real payment provider, which is slow to decide about large orders. */
function bill(order: Order, attempt: number): string | undefined {
  return order.totalCents > 1_000n && attempt === 1 ? "the payment provider wants more time" : undefined;
}
