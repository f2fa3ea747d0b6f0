// A queue with a contract: publishes and consumes typed messages over the untyped client.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";
import type { DescMessage, MessageInitShape, MessageShape } from "@bufbuild/protobuf";

import type { Client, FetchOptions, Receipt } from "./client.js";
import type { Decode, Delivery } from "./delivery.js";
import { DecodeError, type QwerqError } from "./errors.js";
import type { Published, PublishOptions } from "./publish.js";
import type { ConsumeOptions, Subscription } from "./subscription.js";

/** What generated code says about a queue. */
export interface ContractInfo {
  /** The queue's name. */
  readonly queue: string;
  /** The contract's version at the time of generation; 0 when generated from files. */
  readonly version: number;
  /** SHA-256 of the contract, in hexadecimal; empty: not known, and the broker's active version judges. */
  readonly fingerprint: string;
}

/** A queue whose messages are of the type that `D` describes. */
export class Queue<D extends DescMessage> {
  /** The contract that this was generated from. */
  readonly contract: ContractInfo;
  readonly #client: Client;
  readonly #schema: D;
  readonly #fingerprint: Uint8Array;

  /** @internal Use `makeQueue`. */
  constructor(client: Client, schema: D, contract: ContractInfo) {
    this.contract = contract;
    this.#client = client;
    this.#schema = schema;
    this.#fingerprint = fingerprintBytes(contract);
  }

  /** Publishes one message and resolves when it is durable. Waits for room in the client's window. */
  async publish(message: MessageInitShape<D>, options?: PublishOptions): Promise<Published> {
    return this.#client.publish(this.contract.queue, encode(this.#schema, message), options, this.#fingerprint);
  }

  /** Hands one message in and resolves as soon as the window has room; the receipt's result may be awaited later. */
  async submit(message: MessageInitShape<D>, options?: PublishOptions): Promise<Receipt> {
    return this.#client.submit(this.contract.queue, encode(this.#schema, message), options, this.#fingerprint);
  }

  /** Publishes many; one result each, in their order: what was published, or the error. */
  async publishBatch(messages: Iterable<MessageInitShape<D>>, options?: PublishOptions): Promise<(Published | QwerqError)[]> {
    return this.#client.publishBatch(this.contract.queue, this.#encoded(messages, options), this.#fingerprint);
  }

  /** Publishes all or none, in one frame. Throws the refusal of the first bad message. */
  async publishAtomic(messages: Iterable<MessageInitShape<D>>, options?: PublishOptions): Promise<Published[]> {
    return this.#client.publishAtomic(this.contract.queue, this.#encoded(messages, options), this.#fingerprint);
  }

  /** Opens a subscription: `for await (const message of queue.consume({ group: "billing" }))`. */
  consume(options: ConsumeOptions = {}): Subscription<MessageShape<D>> {
    return this.#client.consume(this.contract.queue, options, this.#fingerprint, decoder(this.#schema));
  }

  /** Pulls up to `max` messages, waiting up to `waitMs` for the first one. */
  fetch(options: FetchOptions = {}): Promise<Delivery<MessageShape<D>>[]> {
    return this.#client.fetch(this.contract.queue, options, this.#fingerprint, decoder(this.#schema));
  }

  *#encoded(messages: Iterable<MessageInitShape<D>>, options: PublishOptions | undefined): Generator<{ payload: Uint8Array; options: PublishOptions | undefined }> {
    for (const message of messages) {
      yield { payload: encode(this.#schema, message), options };
    }
  }
}

/** What generated code makes its members of. */
export function makeQueue<D extends DescMessage>(client: Client, schema: D, contract: ContractInfo): Queue<D> {
  return new Queue(client, schema, contract);
}

/** The bytes of a message, or of what one is made from. */
export function encode<D extends DescMessage>(schema: D, message: MessageInitShape<D>): Uint8Array {
  return toBinary(schema, create(schema, message));
}

/** Turns payloads into messages; what is none throws a DecodeError. */
export function decoder<D extends DescMessage>(schema: D): Decode<MessageShape<D>> {
  return (payload, what) => {
    try {
      return fromBinary(schema, payload);
    } catch (cause) {
      throw new DecodeError(what, schema.typeName, cause);
    }
  };
}

/** The fingerprint as the wire has it. */
export function fingerprintBytes({ fingerprint }: ContractInfo): Uint8Array {
  return Uint8Array.from(fingerprint.match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
}
