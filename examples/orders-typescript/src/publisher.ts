// Publishes orders and one payload that breaks the contract: `npm run publisher -- 3`.

import { RefusedError, connect } from "./queues/index.js";

const count = Number(process.argv[2] ?? 3);
await using queues = await connect(process.env["QWERQ_BROKER"] ?? "localhost:9876");

for (let number = 1; number <= count; number += 1) {
  const published = await queues.orders.publish({
    id: `o-${number}`,
    customer: "c-1",
    lines: [{ article: "tea", quantity: number }],
    totalCents: BigInt(500 * number),
  });
  console.log(`published o-${number} as ${published.id}`);
}

try {
  // Field 1, `id`, as a number.
  await queues.client.publish("orders", Uint8Array.of(0x08, 1));
} catch (error) {
  if (!(error instanceof RefusedError)) {
    throw error;
  }
  console.log(`refused: ${error.code}: ${error.message}`);
}
