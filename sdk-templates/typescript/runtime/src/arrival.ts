// Messages as they arrive in MESSAGE and FETCHED, read by hand: they come by the thousand.

import { Reader } from "./reader.js";

/** The `Delivered` of docs/protocol.md. Payload and ids are views into what was read. */
export interface Arrival {
  leaseId: Uint8Array;
  seq: bigint;
  attempt: number;
  skipped: bigint;
  leaseMs: number;
  id: Uint8Array;
  publishedAtMs: number;
  schemaVersion: number;
  headers: { name: string; value: string }[];
  orderingKey: string;
  payload: Uint8Array;
}

const NOTHING = new Uint8Array(0);
const NO_HEADERS: { name: string; value: string }[] = [];

// Field numbers times eight, plus the wire type: 0 for varints, 2 for what has a length.
const DELIVER_SUBSCRIPTION = 0x08;
const DELIVER_MESSAGES = 0x12;
const FETCHED_MESSAGES = 0x0a;

/** A MESSAGE: which subscription, and what. */
export function decodeDeliver(payload: Uint8Array): { subscription: number; messages: Arrival[] } {
  const reader = new Reader(payload);
  const messages: Arrival[] = [];
  let subscription = 0;
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if (tag === DELIVER_MESSAGES) {
      messages.push(readArrival(reader.message()));
    } else if (tag === DELIVER_SUBSCRIPTION) {
      subscription = reader.number();
    } else {
      reader.skip(tag);
    }
  }
  return { subscription, messages };
}

/** The messages of a FETCHED. */
export function decodeFetched(payload: Uint8Array): Arrival[] {
  const reader = new Reader(payload);
  const messages: Arrival[] = [];
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if (tag === FETCHED_MESSAGES) {
      messages.push(readArrival(reader.message()));
    } else {
      reader.skip(tag);
    }
  }
  return messages;
}

function readArrival(reader: Reader): Arrival {
  const arrival: Arrival = {
    leaseId: NOTHING,
    seq: 0n,
    attempt: 0,
    skipped: 0n,
    leaseMs: 0,
    id: NOTHING,
    publishedAtMs: 0,
    schemaVersion: 0,
    headers: NO_HEADERS,
    orderingKey: "",
    payload: NOTHING,
  };
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    switch (tag) {
      case 0x0a:
        arrival.leaseId = reader.bytes();
        break;
      case 0x10:
        arrival.seq = reader.bigint();
        break;
      case 0x18:
        arrival.attempt = reader.number();
        break;
      case 0x20:
        arrival.skipped = reader.bigint();
        break;
      case 0x28:
        arrival.leaseMs = reader.number();
        break;
      case 0x32:
        arrival.id = reader.bytes();
        break;
      case 0x38:
        arrival.publishedAtMs = reader.number();
        break;
      case 0x40:
        arrival.schemaVersion = reader.number();
        break;
      case 0x4a:
        if (arrival.headers === NO_HEADERS) {
          arrival.headers = [];
        }
        arrival.headers.push(readHeader(reader.message()));
        break;
      case 0x52:
        arrival.orderingKey = reader.text();
        break;
      case 0x7a:
        arrival.payload = reader.bytes();
        break;
      default:
        reader.skip(tag);
    }
  }
  return arrival;
}

function readHeader(reader: Reader): { name: string; value: string } {
  const header = { name: "", value: "" };
  for (let tag = reader.tag(); tag !== 0; tag = reader.tag()) {
    if (tag === 0x0a) {
      header.name = reader.text();
    } else if (tag === 0x12) {
      header.value = reader.text();
    } else {
      reader.skip(tag);
    }
  }
  return header;
}
