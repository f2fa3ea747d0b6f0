// Protobuf's wire format, read without descriptors: for the messages that come by the thousand. Everything else is read by @bufbuild/protobuf.

import { ProtocolError } from "./errors.js";

const TWO_32 = 0x1_0000_0000;

/** A cursor over the bytes of one message. */
export class Reader {
  readonly #bytes: Uint8Array;
  #at: number;
  readonly #end: number;

  constructor(bytes: Uint8Array, from = 0, to: number = bytes.length) {
    this.#bytes = bytes;
    this.#at = from;
    this.#end = to;
  }

  /** The next field's number times eight, plus its wire type; 0 at the end. */
  tag(): number {
    return this.#at >= this.#end ? 0 : this.number();
  }

  /** A varint, exact up to 2^53. */
  number(): number {
    let value = 0;
    let factor = 1;
    for (let count = 0; count < 10; count += 1) {
      const byte = this.#next();
      value += (byte & 127) * factor;
      if (byte < 128) {
        return value;
      }
      factor *= 128;
    }
    throw malformed();
  }

  /** A varint of 64 bits. */
  bigint(): bigint {
    const from = this.#at;
    const value = this.number();
    if (value <= Number.MAX_SAFE_INTEGER) {
      return BigInt(value);
    }
    let exact = 0n;
    for (let at = this.#at - 1; at >= from; at -= 1) {
      exact = (exact << 7n) | BigInt((this.#bytes[at] ?? 0) & 127);
    }
    return BigInt.asUintN(64, exact);
  }

  /** The content of a length-delimited field: a view. */
  bytes(): Uint8Array {
    const from = this.#skip(this.number());
    return this.#bytes.subarray(from, this.#at);
  }

  /** A cursor over the content of a length-delimited field. */
  message(): Reader {
    const from = this.#skip(this.number());
    return new Reader(this.#bytes, from, this.#at);
  }

  /** The content of a length-delimited field as text. */
  text(): string {
    return decoder.decode(this.bytes());
  }

  /** Passes over a field that is not known. */
  skip(tag: number): void {
    switch (tag & 7) {
      case 0:
        this.number();
        return;
      case 1:
        this.#skip(8);
        return;
      case 2:
        this.#skip(this.number());
        return;
      case 5:
        this.#skip(4);
        return;
      default:
        throw malformed();
    }
  }

  #skip(count: number): number {
    const from = this.#at;
    this.#at += count;
    if (this.#at > this.#end || count >= TWO_32) {
      throw malformed();
    }
    return from;
  }

  #next(): number {
    if (this.#at >= this.#end) {
      throw malformed();
    }
    const byte = this.#bytes[this.#at] ?? 0;
    this.#at += 1;
    return byte;
  }
}

const decoder = new TextDecoder();

function malformed(): ProtocolError {
  return new ProtocolError("malformed-message", "a frame's payload is not the message that its opcode demands");
}
