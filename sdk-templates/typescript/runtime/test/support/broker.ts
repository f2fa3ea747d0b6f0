// A broker that does what a test says: it accepts connections and lets the test read and write frames.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { DescMessage, MessageInitShape, MessageShape } from "@bufbuild/protobuf";
import assert from "node:assert/strict";
import { createServer, type AddressInfo, type Server, type Socket } from "node:net";

import { FrameDecoder, type Frame, encodeFrame } from "../../src/frame.js";
import { Opcode, opcodeName } from "../../src/opcode.js";
import { HelloAckSchema, HelloSchema, type Hello, PublishAckSchema, PublishSchema, type Publish } from "../../src/wire_pb.js";

/** Values that somebody waits for, in order. */
export class Mailbox<T> {
  #values: T[] = [];
  #takers: ((value: T) => void)[] = [];

  put(value: T): void {
    const taker = this.#takers.shift();
    if (taker === undefined) {
      this.#values.push(value);
    } else {
      taker(value);
    }
  }

  take(): Promise<T> {
    const [value] = this.#values;
    if (value !== undefined) {
      this.#values.shift();
      return Promise.resolve(value);
    }
    return new Promise((resolve) => this.#takers.push(resolve));
  }

  get size(): number {
    return this.#values.length;
  }
}

/** One side's end of a connection, whatever carries it. */
export class Peer {
  readonly frames: Mailbox<Frame> = new Mailbox();
  readonly ended: Promise<void>;
  readonly #decoder = new FrameDecoder(16 * 1024 * 1024);
  readonly #write: (bytes: Uint8Array) => void;
  readonly #destroy: () => void;
  #end: () => void = () => {};

  constructor(write: (bytes: Uint8Array) => void, destroy: () => void) {
    this.#write = write;
    this.#destroy = destroy;
    this.ended = new Promise((resolve) => {
      this.#end = resolve;
    });
  }

  received(bytes: Uint8Array): void {
    this.#decoder.push(bytes);
    for (let frame = this.#decoder.next(); frame !== undefined; frame = this.#decoder.next()) {
      this.frames.put(frame);
    }
  }

  closed(): void {
    this.#end();
  }

  /** The next frame, which must be of that opcode; heartbeats are passed over unless they are asked for. */
  async expect<D extends DescMessage>(opcode: number, schema: D): Promise<{ id: number; message: MessageShape<D> }> {
    for (;;) {
      const frame = await this.frames.take();
      if (frame.opcode === Opcode.Heartbeat && opcode !== Opcode.Heartbeat) {
        continue;
      }
      assert.equal(opcodeName(frame.opcode), opcodeName(opcode));
      return { id: frame.requestId ?? -1, message: fromBinary(schema, frame.payload) };
    }
  }

  send<D extends DescMessage>(opcode: number, schema: D, message: MessageInitShape<D>, id?: number): void {
    this.#write(encodeFrame(opcode, id, toBinary(schema, create(schema, message))));
  }

  raw(bytes: Uint8Array): void {
    this.#write(bytes);
  }

  destroy(): void {
    this.#destroy();
  }

  /** Hears HELLO and agrees to it. */
  async hello(ack: MessageInitShape<typeof HelloAckSchema> = {}): Promise<Hello> {
    const { message } = await this.expect(Opcode.Hello, HelloSchema);
    this.send(Opcode.HelloAck, HelloAckSchema, { protocol: 1, session: "c-1", brokerVersion: "0.0.0", ...ack });
    return message;
  }

  /** Hears a PUBLISH and accepts all of it, from that seq on. */
  async acceptPublish(seq = 0): Promise<Publish> {
    const { id, message } = await this.expect(Opcode.Publish, PublishSchema);
    const results = message.items.map((_, at) => ({ id: new Uint8Array(16), seq: BigInt(seq + at) }));
    this.send(Opcode.PublishAck, PublishAckSchema, { results, durability: 1 }, id);
    return message;
  }
}

/** A TCP listener. */
export class ScriptedBroker {
  readonly peers: Mailbox<Peer> = new Mailbox();
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
    server.on("connection", (socket) => {
      this.#sockets.add(socket);
      const peer = new Peer(
        (bytes) => socket.write(bytes),
        () => socket.destroy(),
      );
      socket.on("data", (chunk) => peer.received(chunk));
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        peer.closed();
      });
      this.peers.put(peer);
    });
  }

  static async listen(): Promise<ScriptedBroker> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new ScriptedBroker(server);
  }

  get address(): string {
    return `127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  /** The next connection, agreed on. */
  async accept(ack: MessageInitShape<typeof HelloAckSchema> = {}): Promise<Peer> {
    const peer = await this.peers.take();
    await peer.hello(ack);
    return peer;
  }

  async close(): Promise<void> {
    this.#sockets.forEach((socket) => socket.destroy());
    await new Promise((resolve) => this.#server.close(resolve));
  }
}
