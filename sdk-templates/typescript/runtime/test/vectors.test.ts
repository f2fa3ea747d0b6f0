// The frame codec and the messages against docs/protocol.md: every vector both ways, every refusal, every opcode.

import { equals, fromBinary, fromJson, toBinary } from "@bufbuild/protobuf";
import type { DescMessage } from "@bufbuild/protobuf";
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { QwerqError } from "../src/errors.js";
import { FrameDecoder, encodeFrame } from "../src/frame.js";
import { Opcode, opcodeName } from "../src/opcode.js";
import * as wire from "../src/wire_pb.js";

// From build/test/ to the root of the repository.
const page = readFileSync(new URL("../../../../../docs/protocol.md", import.meta.url), "utf8");

/** The message that each opcode carries, from the table. */
const carried: ReadonlyMap<string, string> = new Map(
  [...page.matchAll(/^\| 0x[0-9a-f]{2} \| ([A-Z_]+) \| \w+ \| `(\w+)` \|/gm)].map((row) => [row[1] ?? "", row[2] ?? ""]),
);

function schemaOf(opcode: string): DescMessage {
  const schema = (wire as unknown as Record<string, DescMessage>)[`${carried.get(opcode)}Schema`];
  assert.ok(schema, `the page says what ${opcode} carries`);
  return schema;
}

function bytesOf(hex: string): Uint8Array {
  return Uint8Array.from(hex.replace(/\s/g, "").match(/../g) ?? [], (digits) => Number.parseInt(digits, 16));
}

function blocks(kind: string): { attributes: Map<string, string>; text: string }[] {
  return [...page.matchAll(new RegExp(`^\`\`\`${kind} (.*)\\n([^]*?)^\`\`\`$`, "gm"))].map(([, head = "", text = ""]) => ({
    attributes: new Map(head.split(" ").map((pair) => pair.split("=") as [string, string])),
    text,
  }));
}

test("the_opcode_table_agrees", () => {
  const rows = [...page.matchAll(/^\| 0x([0-9a-f]{2}) \| ([A-Z_]+) \|/gm)];
  assert.equal(rows.length, Object.keys(Opcode).length);
  for (const [, number = "", name] of rows) {
    assert.equal(opcodeName(Number.parseInt(number, 16)), name);
  }
});

test("every_error_code_of_the_broker_is_in_the_type", () => {
  const index = readFileSync(new URL("../../../../../docs/errors/README.md", import.meta.url), "utf8");
  const rows = [...index.matchAll(/^\| \d{4} \| \[([a-z-]+)\]/gm)].map((row) => row[1]);
  const source = readFileSync(new URL("../../src/errors.ts", import.meta.url), "utf8");
  const codes = [...source.matchAll(/^  \| "([a-z-]+)"/gm)].map((line) => line[1]);
  assert.deepEqual(codes, [...rows, "disconnected", "connect-failed", "closed", "undecodable"]);
});

test("every_vector_reads_and_writes_as_the_page_says", () => {
  const vectors = blocks("vector");
  assert.ok(vectors.length >= Object.keys(Opcode).length, `${vectors.length} vectors`);
  for (const { attributes, text } of vectors) {
    const name = attributes.get("name");
    const split = text.indexOf("\n\n");
    const opcode = attributes.get("opcode") ?? "";
    const schema = schemaOf(opcode);
    const expected = fromJson(schema, JSON.parse(text.slice(0, split)));
    const bytes = bytesOf(text.slice(split));
    const decoder = new FrameDecoder(16 * 1024 * 1024);
    decoder.push(bytes);
    const frame = decoder.next();
    assert.ok(frame, name);
    assert.equal(opcodeName(frame.opcode), opcode, name);
    const correlated = attributes.get("correlated");
    assert.equal(frame.requestId, correlated === undefined ? undefined : Number(correlated), name);
    assert.ok(equals(schema, fromBinary(schema, frame.payload), expected), name);
    assert.deepEqual(encodeFrame(frame.opcode, frame.requestId, toBinary(schema, expected)), bytes, name);
    assert.equal(decoder.next(), undefined, name);
  }
});

test("a_frame_is_read_whatever_pieces_it_comes_in", () => {
  const frames = blocks("vector").map(({ text }) => bytesOf(text.slice(text.indexOf("\n\n"))));
  for (const step of [1, 5, 7, 64]) {
    const decoder = new FrameDecoder(16 * 1024 * 1024);
    const got: Uint8Array[] = [];
    const stream = Uint8Array.from(frames.flatMap((frame) => [...frame]));
    for (let at = 0; at < stream.length; at += step) {
      decoder.push(stream.slice(at, at + step));
      for (let frame = decoder.next(); frame !== undefined; frame = decoder.next()) {
        got.push(encodeFrame(frame.opcode, frame.requestId, frame.payload));
      }
    }
    assert.deepEqual(got, frames);
  }
});

test("bytes_that_are_no_frame_are_refused_by_their_header", () => {
  for (const { attributes, text } of blocks("refused")) {
    const decoder = new FrameDecoder(Number(attributes.get("limit")));
    decoder.push(bytesOf(text));
    assert.throws(
      () => decoder.next(),
      (error) => error instanceof QwerqError && error.code === attributes.get("error"),
      attributes.get("name"),
    );
  }
});
