// Messages a second of this client against a broker: `QWERQ_BROKER=localhost:9876 npm run bench`. Start the broker in release, on an empty
// data directory. Publishing, then consuming with acks, then both at once.

import { connectClient } from "../src/index.js";

const count = Number(process.argv[2] ?? 200_000);
const payload = new Uint8Array(256);
const client = await connectClient(process.env["QWERQ_BROKER"] ?? "localhost:9876");

async function publish(queue: string): Promise<void> {
  let last: Promise<unknown> = Promise.resolve();
  for (let at = 0; at < count; at += 1) {
    last = (await client.submit(queue, payload)).result;
  }
  await last;
}

async function consume(queue: string): Promise<void> {
  const messages = client.consume(queue, { prefetch: 1024 });
  let left = count;
  for await (const message of messages) {
    left -= 1;
    if (left === 0) {
      await message.ackConfirmed();
      break;
    }
    message.ack();
  }
}

async function measure(name: string, run: () => Promise<void>): Promise<void> {
  const [began, cpu] = [performance.now(), process.cpuUsage()];
  await run();
  const seconds = (performance.now() - began) / 1000;
  const { user, system } = process.cpuUsage(cpu);
  const busy = (user + system) / 1e6 / seconds;
  console.log(`${name}: ${Math.round(count / seconds)} messages a second, ${(busy * 100).toFixed(0)} % of a core`);
}

await measure("publish", () => publish("bench-a"));
await measure("consume and ack", () => consume("bench-a"));
await measure("publish, consume and ack", async () => {
  await Promise.all([publish("bench-b"), consume("bench-b")]);
});
await client.close();
