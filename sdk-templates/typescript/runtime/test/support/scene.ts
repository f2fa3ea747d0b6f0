// A client that is connected to a scripted broker; both are gone when the test is over.

import type { TestContext } from "node:test";

import { type Client, type ConnectOptions, connectClient } from "../../src/index.js";
import { type Peer, ScriptedBroker } from "./broker.js";

export interface Scene {
  readonly broker: ScriptedBroker;
  readonly client: Client;
  readonly peer: Peer;
}

/** Reconnects at once, so that tests need no patience. */
export async function scene(
  test: TestContext,
  options: ConnectOptions = {},
  ack: Parameters<ScriptedBroker["accept"]>[0] = {},
): Promise<Scene> {
  const broker = await ScriptedBroker.listen();
  const accepted = broker.accept(ack);
  const client = await connectClient(broker.address, { reconnect: { firstMs: 0, maxMs: 0 }, ...options });
  const peer = await accepted;
  test.after(async () => {
    await broker.close();
    await client.close().catch(() => {});
  });
  return { broker, client, peer };
}

/** The 24 bytes of a lease id. */
export function leaseId(number: number): Uint8Array {
  const id = new Uint8Array(24);
  new DataView(id.buffer).setUint32(20, number);
  return id;
}
