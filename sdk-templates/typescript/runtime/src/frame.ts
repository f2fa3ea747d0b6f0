// Frames: six header bytes, perhaps a request id, and a protobuf message. Knows no message and no socket.
// A length is compared with the limit before anything is waited for. See docs/protocol.md.

import { ProtocolError } from "./errors.js";

/** Bytes of a frame before its payload. */
export const HEADER_BYTES = 6;

/** The longest frame before HELLO_ACK. */
export const FRAME_BYTES_BEFORE_HELLO = 4096;

const CORRELATED = 1;
const REQUEST_ID_BYTES = 4;

/** One frame. The payload is a view into what was read. */
export interface Frame {
  readonly opcode: number;
  readonly requestId: number | undefined;
  readonly payload: Uint8Array;
}

/** The bytes of a frame. */
export function encodeFrame(opcode: number, requestId: number | undefined, payload: Uint8Array): Uint8Array {
  const idBytes = requestId === undefined ? 0 : REQUEST_ID_BYTES;
  const bytes = new Uint8Array(HEADER_BYTES + idBytes + payload.length);
  writeHeader(bytes, opcode, requestId, payload.length);
  bytes.set(payload, HEADER_BYTES + idBytes);
  return bytes;
}

function writeHeader(bytes: Uint8Array, opcode: number, requestId: number | undefined, payloadBytes: number): void {
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  view.setUint8(0, opcode);
  view.setUint8(1, requestId === undefined ? 0 : CORRELATED);
  view.setUint32(2, payloadBytes + (requestId === undefined ? 0 : REQUEST_ID_BYTES));
  if (requestId !== undefined) {
    view.setUint32(HEADER_BYTES, requestId);
  }
}

/** Cuts what arrives into frames. */
export class FrameDecoder {
  /** The longest `length` that is accepted. */
  limit: number;
  #bytes: Uint8Array = new Uint8Array(0);
  #start = 0;
  #end = 0;
  // Whether the space behind `end` is this decoder's, so that it may be filled.
  #own = false;

  constructor(limit: number) {
    this.limit = limit;
  }

  /** Adds what was read. The bytes must not change any more. */
  push(chunk: Uint8Array): void {
    const left = this.#end - this.#start;
    if (left === 0) {
      this.#bytes = chunk;
      this.#start = 0;
      this.#end = chunk.length;
      this.#own = false;
      return;
    }
    if (!this.#own || this.#end + chunk.length > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(this.#missing() + left, left + chunk.length));
      grown.set(this.#bytes.subarray(this.#start, this.#end));
      this.#bytes = grown;
      this.#start = 0;
      this.#end = left;
      this.#own = true;
    }
    this.#bytes.set(chunk, this.#end);
    this.#end += chunk.length;
  }

  /** The next whole frame; `undefined` when more must be read. Throws when the bytes cannot be a frame. */
  next(): Frame | undefined {
    if (this.#end - this.#start < HEADER_BYTES) {
      return undefined;
    }
    const view = new DataView(this.#bytes.buffer, this.#bytes.byteOffset + this.#start);
    const flags = view.getUint8(1);
    const length = view.getUint32(2);
    if ((flags & ~CORRELATED) !== 0) {
      throw new ProtocolError("unnegotiated-flag", `a frame carries the flags ${flags}`);
    }
    if (length > this.limit) {
      throw new ProtocolError("frame-too-large", `a frame of ${length} bytes is over the limit of ${this.limit}`);
    }
    const correlated = (flags & CORRELATED) !== 0;
    if (correlated && length < REQUEST_ID_BYTES) {
      throw new ProtocolError("malformed-frame", "a correlated frame has no room for its request id");
    }
    if (this.#end - this.#start < HEADER_BYTES + length) {
      return undefined;
    }
    const from = this.#start + HEADER_BYTES + (correlated ? REQUEST_ID_BYTES : 0);
    this.#start += HEADER_BYTES + length;
    return {
      opcode: view.getUint8(0),
      requestId: correlated ? view.getUint32(HEADER_BYTES) : undefined,
      payload: this.#bytes.subarray(from, this.#start),
    };
  }

  /** How many bytes the frame that has begun still lacks, as far as its header says. */
  #missing(): number {
    const left = this.#end - this.#start;
    if (left < HEADER_BYTES) {
      return HEADER_BYTES - left;
    }
    const length = new DataView(this.#bytes.buffer, this.#bytes.byteOffset + this.#start).getUint32(2);
    return length > this.limit ? 0 : Math.max(0, HEADER_BYTES + length - left);
  }
}
