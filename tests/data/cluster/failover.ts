// Publishes numbered messages to a stream and consumes them in a group of its own, whatever becomes of the nodes meanwhile. Says on stdout
// what was acknowledged, and ends when all of its messages were acknowledged and consumed.

import { connectClient } from "./qwerq/index.js";

const [stream, count] = [process.argv[2] ?? "", Number(process.argv[3])];
const client = await connectClient(process.env["QWERQ_BROKER"] ?? "");
const subscription = client.consume(stream, { group: "typescript" });
await subscription.ready;

async function consume(): Promise<void> {
  const missing = new Set(Array.from({ length: count }, (_, at) => `typescript-${at}`));
  for await (const delivery of subscription) {
    missing.delete(new TextDecoder().decode(delivery.payload));
    try {
      delivery.ack();
    } catch {
      // The lease ended with its leader; the message comes again.
    }
    if (missing.size === 0) {
      return;
    }
  }
}

async function publish(): Promise<void> {
  for (let at = 0; at < count; at += 10) {
    const batch = Array.from({ length: 10 }, (_, next) => `typescript-${at + next}`);
    await Promise.all(
      batch.map(async (text) => {
        const { durability, duplicate } = await client.publish(stream, new TextEncoder().encode(text));
        console.log(`acked ${text} ${durability} ${duplicate}`);
      }),
    );
  }
}

await Promise.all([consume(), publish()]);
console.log("done");
await client.close();
