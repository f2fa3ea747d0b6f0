// A WebSocket server that does what a test says: RFC 6455 as far as binary messages need it.

import { createHash } from "node:crypto";
import { createServer, type Server } from "node:http";
import type { AddressInfo, Socket } from "node:net";

import { Mailbox, Peer } from "./broker.js";

const GUID = "258EAFA5-E914-47DA-95CA-C5AB0DC85B11";
const BINARY = 2;
const CLOSE = 8;

/** What one message held, before it is cut into frames. */
export interface WebSocketPeer {
  readonly peer: Peer;
  readonly path: string;
  /** The bytes of each message that came. */
  readonly messages: Uint8Array[];
  /** Sends a text message, which the protocol forbids. */
  text(text: string): void;
}

export class ScriptedWebSocket {
  readonly peers: Mailbox<WebSocketPeer> = new Mailbox();
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();

  private constructor(server: Server) {
    this.#server = server;
    server.on("upgrade", (request, stream) => {
      const socket = stream as Socket;
      this.#sockets.add(socket);
      const accept = createHash("sha1").update(`${request.headers["sec-websocket-key"]}${GUID}`).digest("base64");
      socket.write(
        `HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: ${accept}\r\n\r\n`,
      );
      const peer = new Peer(
        (bytes) => socket.write(message(BINARY, bytes)),
        () => socket.destroy(),
      );
      const messages: Uint8Array[] = [];
      let pending = Buffer.alloc(0);
      socket.on("data", (chunk) => {
        pending = Buffer.concat([pending, chunk]);
        for (let next = take(pending); next !== undefined; next = take(pending)) {
          pending = pending.subarray(next.length);
          if (next.opcode === BINARY) {
            messages.push(next.payload);
            peer.received(next.payload);
          } else if (next.opcode === CLOSE) {
            socket.end(message(CLOSE, next.payload));
          }
        }
      });
      socket.on("error", () => {});
      socket.on("close", () => {
        this.#sockets.delete(socket);
        peer.closed();
      });
      this.peers.put({ peer, path: request.url ?? "", messages, text: (text) => void socket.write(message(1, Buffer.from(text))) });
    });
  }

  static async listen(): Promise<ScriptedWebSocket> {
    const server = createServer();
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
    return new ScriptedWebSocket(server);
  }

  get address(): string {
    return `ws://127.0.0.1:${(this.#server.address() as AddressInfo).port}`;
  }

  async close(): Promise<void> {
    this.#sockets.forEach((socket) => socket.destroy());
    await new Promise((resolve) => this.#server.close(resolve));
  }
}

/** A whole, unmasked WebSocket message. */
function message(opcode: number, payload: Uint8Array): Buffer {
  const head = payload.length < 126 ? Buffer.of(0x80 | opcode, payload.length) : Buffer.alloc(4);
  if (payload.length >= 126) {
    head[0] = 0x80 | opcode;
    head[1] = 126;
    head.writeUInt16BE(payload.length, 2);
  }
  return Buffer.concat([head, payload]);
}

/** The first masked message of `bytes`, if it is whole. */
function take(bytes: Buffer): { opcode: number; payload: Uint8Array; length: number } | undefined {
  if (bytes.length < 2) {
    return undefined;
  }
  const short = (bytes[1] ?? 0) & 127;
  const lengthBytes = short === 126 ? 2 : short === 127 ? 8 : 0;
  if (bytes.length < 2 + lengthBytes + 4) {
    return undefined;
  }
  const length = lengthBytes === 2 ? bytes.readUInt16BE(2) : lengthBytes === 8 ? Number(bytes.readBigUInt64BE(2)) : short;
  const mask = bytes.subarray(2 + lengthBytes, 6 + lengthBytes);
  const end = 6 + lengthBytes + length;
  if (bytes.length < end) {
    return undefined;
  }
  const payload = Uint8Array.from(bytes.subarray(6 + lengthBytes, end), (byte, at) => byte ^ (mask[at % 4] ?? 0));
  return { opcode: (bytes[0] ?? 0) & 15, payload, length: end };
}
