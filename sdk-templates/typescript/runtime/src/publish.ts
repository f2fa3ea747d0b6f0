// What a publisher says and what it gets back, and how both are written: items are encoded where they are made, a frame is put together
// from items. Knows no socket; read on in `lane`.

import { create, fromBinary, toBinary } from "@bufbuild/protobuf";

import { type QwerqError, fromWire } from "./errors.js";
import { formatId, parseId } from "./message_id.js";
import { Reader } from "./reader.js";
import type { RetryKey } from "./retry_key.js";
import { Durability, ErrorSchema, type Header, HeaderSchema, PublishItemSchema, PublishSchema } from "./wire_pb.js";

/** String headers, by name. */
export type HeadersInit = Readonly<Record<string, string>> | ReadonlyMap<string, string>;

/** Everything that a publisher can say about a message beside its payload. */
export interface PublishOptions {
  /** Names starting with `qwerq-` are the broker's; at most 64 entries and 32 KiB. */
  headers?: HeadersInit;
  /** Messages of one key are delivered one at a time and in order, per group. */
  orderingKey?: string;
  /**
   * A second publish with the same key inside the queue's dedup window stores nothing. Also makes the publish safe to repeat, so that the
   * client does so by itself after a lost connection.
   */
  idempotencyKey?: string;
  /** Deliver not before so long from now. */
  delayMs?: number;
  /** Deliver not before that time. */
  deliverAt?: Date;
  /** Drop, or dead-letter, when undelivered so long after falling due. */
  ttlMs?: number;
  /** The publisher's own id, as a ULID's text; without one the broker makes one. */
  id?: string;
  /** Ends the waiting; a message that was sent stays sent. */
  signal?: AbortSignal;
}

/** The broker's receipt for one message: it is stored as `durability` says. */
export interface Published {
  /** The message's id; for a duplicate, the first one's. */
  readonly id: string;
  /** Its position in the queue; none yet while it is delayed. */
  readonly seq: bigint | undefined;
  /** The version of the contract that it was accepted under; 0 on a queue without one. */
  readonly schemaVersion: number;
  /** The idempotency key was seen before inside the dedup window; nothing was stored. */
  readonly duplicate: boolean;
  /** The broker does not know the contract that this publisher was generated from; the active version judged instead. */
  readonly contractUnknown: boolean;
  /** What the acknowledgement promises. */
  readonly durability: "fsync" | "interval" | "none" | "quorum" | "unknown";
  /** Set when the message breaks the contract and the queue sends such ones to its dead letter queue: the violation. */
  readonly deadLettered: QwerqError | undefined;
}

/** An item of a PUBLISH, encoded. */
export interface Item {
  readonly bytes: Uint8Array;
  /** Whether it has an idempotency key, so that it may go out twice. */
  readonly keyed: boolean;
  /** The number of the key, if it is one of the client's own; see `retry_key`. */
  readonly retry: number | undefined;
}

// Field numbers times eight, plus 2: what has a length.
const ITEMS_FIELD_TAG = 0x12;
const PAYLOAD_FIELD_TAG = 0x0a;

const NOTHING = new Uint8Array(0);

/** Headers as the wire has them. */
export function wireHeaders(headers: HeadersInit | undefined): Header[] {
  if (headers === undefined) {
    return [];
  }
  const pairs = headers instanceof Map ? [...headers] : Object.entries(headers);
  return pairs.map(([name, value]: [string, string]) => create(HeaderSchema, { name, value }));
}

/** Whether the caller gave the message a key. */
export function hasKey(options: PublishOptions): boolean {
  return options.idempotencyKey !== undefined && options.idempotencyKey !== "";
}

/** The message of one item, under the client's own key if it is to have one. Its payload is copied, so that the caller may go on with it. */
export function encodeItem(payload: Uint8Array, options: PublishOptions, key?: RetryKey): Item {
  const rest = encodeOptions(key === undefined ? options : { ...options, idempotencyKey: key.text });
  const head = payload.length === 0 ? 0 : 1 + varintSize(payload.length);
  const bytes = new Uint8Array(head + payload.length + rest.length);
  if (payload.length > 0) {
    bytes[0] = PAYLOAD_FIELD_TAG;
    bytes.set(payload, writeVarint(bytes, 1, payload.length));
  }
  bytes.set(rest, head + payload.length);
  return { bytes, keyed: key !== undefined || hasKey(options), retry: key?.number };
}

/** All of an item but its payload. */
function encodeOptions(options: PublishOptions): Uint8Array {
  const { headers, orderingKey, idempotencyKey, delayMs, deliverAt, ttlMs, id } = options;
  const said = [headers, orderingKey, idempotencyKey, delayMs, deliverAt, ttlMs, id].some((option) => option !== undefined);
  if (!said) {
    return NOTHING;
  }
  const item = create(PublishItemSchema, {
    headers: wireHeaders(headers),
    orderingKey: orderingKey ?? "",
    idempotencyKey: idempotencyKey ?? "",
    id: id === undefined ? NOTHING : parseId(id),
    ...(delayMs === undefined ? {} : { delayMs: BigInt(Math.round(delayMs)) }),
    ...(deliverAt === undefined ? {} : { deliverAtMs: BigInt(deliverAt.getTime()) }),
    ...(ttlMs === undefined ? {} : { ttlMs: BigInt(Math.round(ttlMs)) }),
  });
  return toBinary(PublishItemSchema, item);
}

/** What an item takes in a frame, its tag and length included. */
export function itemSize(item: Item): number {
  return 1 + varintSize(item.bytes.length) + item.bytes.length;
}

/** The message of a PUBLISH, put together from encoded items. */
export function encodePublish(queue: string, contract: Uint8Array, items: readonly Item[], atomic: boolean): Uint8Array {
  const rest = toBinary(PublishSchema, create(PublishSchema, { queue, contract, atomic }));
  const size = items.reduce((sum, item) => sum + itemSize(item), rest.length);
  const bytes = new Uint8Array(size);
  bytes.set(rest);
  let at = rest.length;
  for (const item of items) {
    bytes[at] = ITEMS_FIELD_TAG;
    at = writeVarint(bytes, at + 1, item.bytes.length);
    bytes.set(item.bytes, at);
    at += item.bytes.length;
  }
  return bytes;
}

/** One result for each item. Read by hand: results come by the thousand. */
export function decodePublishAck(payload: Uint8Array): (Published | QwerqError)[] {
  const reader = new Reader(payload);
  const results: Result[] = [];
  let durability = Durability.UNSPECIFIED;
  let contractUnknown = false;
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if (tag === 0x0a) {
      results.push(readResult(reader.message()));
    } else if (tag === 0x10) {
      durability = reader.number();
    } else if (tag === 0x18) {
      contractUnknown = reader.number() !== 0;
    } else {
      reader.skip(tag);
    }
  }
  const name = durabilityName(durability);
  return results.map(({ id, seq, schemaVersion, duplicate, error, deadLettered }) =>
    error !== undefined && !deadLettered
      ? error
      : { id: formatId(id), seq, schemaVersion, duplicate, contractUnknown, durability: name, deadLettered: error },
  );
}

interface Result {
  id: Uint8Array;
  seq: bigint | undefined;
  schemaVersion: number;
  duplicate: boolean;
  error: QwerqError | undefined;
  deadLettered: boolean;
}

function readResult(reader: Reader): Result {
  const result: Result = { id: NOTHING, seq: undefined, schemaVersion: 0, duplicate: false, error: undefined, deadLettered: false };
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 0x0a:
        result.id = reader.bytes();
        break;
      case 0x10:
        result.seq = reader.bigint();
        break;
      case 0x18:
        result.schemaVersion = reader.number();
        break;
      case 0x20:
        result.duplicate = reader.number() !== 0;
        break;
      case 0x2a:
        result.error = fromWire(fromBinary(ErrorSchema, reader.bytes()));
        break;
      case 0x30:
        result.deadLettered = reader.number() !== 0;
        break;
      default:
        reader.skip(tag);
    }
  }
  return result;
}

function durabilityName(durability: Durability): Published["durability"] {
  switch (durability) {
    case Durability.FSYNC:
      return "fsync";
    case Durability.INTERVAL:
      return "interval";
    case Durability.NONE:
      return "none";
    case Durability.QUORUM:
      return "quorum";
    default:
      return "unknown";
  }
}

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value >>> 7; rest > 0; rest >>>= 7) {
    size += 1;
  }
  return size;
}

function writeVarint(bytes: Uint8Array, at: number, value: number): number {
  let [rest, position] = [value, at];
  while (rest > 127) {
    bytes[position] = (rest & 127) | 128;
    rest >>>= 7;
    position += 1;
  }
  bytes[position] = rest;
  return position + 1;
}
