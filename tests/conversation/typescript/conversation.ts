// The TypeScript part of the conversation: `node conversation.js ROLE LIMIT`. It says what it saw in lines of text.
//
// `cases` builds every case of cases.json by hand, so that the types of the generated code are what is tested.

import { type MessageInitShape, create, equals, toBinary } from "@bufbuild/protobuf";

import { Color, type Everything, EverythingSchema, MapsSchema } from "./queues/everything_pb.js";
import { QwerqError, connect } from "./queues/index.js";

const [role, limitText] = process.argv.slice(2);
const limit = Number(limitText);
const q = await connect(process.env["QWERQ_BROKER"] ?? "");

const TEXT = "\0\u00e9e\u0301\ufffd\u{1f600}\u{10ffff}";
const BYTES = Uint8Array.from({ length: 256 }, (_, at) => at);
const [MIN_I32, MAX_I32, MAX_U32] = [-(2 ** 31), 2 ** 31 - 1, 2 ** 32 - 1];
const [MIN_I64, MAX_I64, MAX_U64] = [-(2n ** 63n), 2n ** 63n - 1n, 2n ** 64n - 1n];
const MAX_FLOAT = 3.4028234663852886e38;

const least = {
  fDouble: -Number.MAX_VALUE,
  fFloat: -MAX_FLOAT,
  fInt32: MIN_I32,
  fInt64: MIN_I64,
  fUint32: 1,
  fUint64: 1n,
  fSint32: MIN_I32,
  fSint64: MIN_I64,
  fFixed32: 1,
  fFixed64: 1n,
  fSfixed32: MIN_I32,
  fSfixed64: MIN_I64,
  fBool: true,
  fString: TEXT,
  fBytes: BYTES,
  fColor: Color.FIRST,
};

const most = {
  fDouble: Number.MAX_VALUE,
  fFloat: MAX_FLOAT,
  fInt32: MAX_I32,
  fInt64: MAX_I64,
  fUint32: MAX_U32,
  fUint64: MAX_U64,
  fSint32: MAX_I32,
  fSint64: MAX_I64,
  fFixed32: MAX_U32,
  fFixed64: MAX_U64,
  fSfixed32: MAX_I32,
  fSfixed64: MAX_I64,
  fBool: true,
  fString: TEXT,
  fBytes: BYTES,
  fColor: Color.LAST,
};

const zero = {
  fDouble: 0,
  fFloat: 0,
  fInt32: 0,
  fInt64: 0n,
  fUint32: 0,
  fUint64: 0n,
  fSint32: 0,
  fSint64: 0n,
  fFixed32: 0,
  fFixed64: 0n,
  fSfixed32: 0,
  fSfixed64: 0n,
  fBool: false,
  fString: "",
  fBytes: new Uint8Array(0),
  fColor: Color.UNSPECIFIED,
};

const lists: MessageInitShape<typeof EverythingSchema>["lists"] = {
  fDouble: [NaN, Infinity, -Infinity, -0, Number.MIN_VALUE, 0],
  fFloat: [NaN, Infinity, -Infinity, -0, 2 ** -149, 0],
  fInt32: [MIN_I32, -1, 0, MAX_I32],
  fInt64: [MIN_I64, -1n, 0n, MAX_I64],
  fUint32: [0, MAX_U32],
  fUint64: [0n, MAX_U64],
  fSint32: [MIN_I32, -1, 0, MAX_I32],
  fSint64: [MIN_I64, -1n, 0n, MAX_I64],
  fFixed32: [0, MAX_U32],
  fFixed64: [0n, MAX_U64],
  fSfixed32: [MIN_I32, -1, 0, MAX_I32],
  fSfixed64: [MIN_I64, -1n, 0n, MAX_I64],
  fBool: [true, false],
  fString: ["", TEXT],
  fBytes: [new Uint8Array(0), BYTES],
  fColor: [Color.UNSPECIFIED, Color.RED, 77 as Color, -1 as Color],
  unpacked: [MIN_I32, 0, MAX_I32],
  nothings: [{}, {}],
};

const maps: MessageInitShape<typeof EverythingSchema>["maps"] = {
  byInt32: { [MIN_I32]: "", 0: TEXT, [MAX_I32]: "x" },
  byInt64: { [`${MIN_I64}`]: new Uint8Array(0), "0": BYTES, [`${MAX_I64}`]: Uint8Array.of(255) },
  byUint32: { 0: 0.5, [MAX_U32]: -1.5 },
  byUint64: { "0": MIN_I64, [`${MAX_U64}`]: MAX_I64 },
  bySint32: { [MIN_I32]: true, 0: false, [MAX_I32]: true },
  bySint64: { [`${MIN_I64}`]: Color.RED, "0": 77 as Color, [`${MAX_I64}`]: Color.UNSPECIFIED },
  byFixed32: { 0: {}, [MAX_U32]: {} },
  byFixed64: { "0": 0n, [`${MAX_U64}`]: MAX_U64 },
  bySfixed32: { [MIN_I32]: 0.5, 0: 0, [MAX_I32]: -0.5 },
  bySfixed64: { [`${MIN_I64}`]: MIN_I32, "0": 0, [`${MAX_I64}`]: MAX_I32 },
  byBool: { false: 0n, true: MAX_U64 },
  byString: { "": {}, [TEXT]: most, constructor: least },
};

const wellKnownZeros: MessageInitShape<typeof EverythingSchema>["wellKnown"] = {
  at: { seconds: 0n, nanos: 0 },
  span: { seconds: 0n, nanos: 0 },
  empty: {},
  doubleValue: 0,
  floatValue: 0,
  int64Value: 0n,
  uint64Value: 0n,
  int32Value: 0,
  uint32Value: 0,
  boolValue: false,
  stringValue: "",
  bytesValue: new Uint8Array(0),
};

const wellKnownLeast: typeof wellKnownZeros = {
  at: { seconds: -62_135_596_800n, nanos: 0 },
  span: { seconds: -315_576_000_000n, nanos: -999_999_999 },
  empty: {},
  doubleValue: -Infinity,
  floatValue: -Infinity,
  int64Value: MIN_I64,
  uint64Value: 1n,
  int32Value: MIN_I32,
  uint32Value: 1,
  boolValue: true,
  stringValue: TEXT,
  bytesValue: BYTES,
};

const wellKnownMost: typeof wellKnownZeros = {
  at: { seconds: 253_402_300_799n, nanos: 999_999_999 },
  span: { seconds: 315_576_000_000n, nanos: 999_999_999 },
  empty: {},
  doubleValue: NaN,
  floatValue: NaN,
  int64Value: MAX_I64,
  uint64Value: MAX_U64,
  int32Value: MAX_I32,
  uint32Value: MAX_U32,
  boolValue: true,
  stringValue: TEXT,
  bytesValue: BYTES,
};

function deep(): Everything {
  let message = create(EverythingSchema, { name: "end" });
  for (let depth = 0; depth < 60; depth += 1) {
    message = create(EverythingSchema, { inner: message });
  }
  message.name = "deep";
  return message;
}

const cases: Everything[] = [
  create(EverythingSchema, { name: "nothing set" }),
  create(EverythingSchema, { name: "least", scalars: least }),
  create(EverythingSchema, { name: "most", scalars: most }),
  create(EverythingSchema, { name: "not a number", scalars: { fDouble: NaN, fFloat: NaN } }),
  create(EverythingSchema, { name: "infinite", scalars: { fDouble: Infinity, fFloat: -Infinity } }),
  create(EverythingSchema, { name: "unknown color", scalars: { fColor: 77 as Color } }),
  create(EverythingSchema, { name: "optional zeros", optionals: zero }),
  create(EverythingSchema, { name: "optional extremes", optionals: most }),
  create(EverythingSchema, { name: "optional negative zeros", optionals: { fDouble: -0, fFloat: -0 } }),
  create(EverythingSchema, { name: "optionals absent", optionals: {} }),
  create(EverythingSchema, { name: "lists", lists }),
  create(EverythingSchema, { name: "maps", maps }),
  create(EverythingSchema, { name: "choice of empty text", choice: { case: "text", value: "" } }),
  create(EverythingSchema, { name: "choice of zero", choice: { case: "number", value: 0n } }),
  create(EverythingSchema, { name: "choice of least", choice: { case: "number", value: MIN_I64 } }),
  create(EverythingSchema, { name: "choice of no color", choice: { case: "color", value: Color.UNSPECIFIED } }),
  create(EverythingSchema, { name: "choice of unknown color", choice: { case: "color", value: -1 as Color } }),
  create(EverythingSchema, { name: "choice of no bytes", choice: { case: "raw", value: new Uint8Array(0) } }),
  create(EverythingSchema, { name: "choice of nothing", choice: { case: "nothing", value: {} } }),
  create(EverythingSchema, { name: "choice of negative zero", choice: { case: "real", value: -0 } }),
  create(EverythingSchema, { name: "well-known zeros", wellKnown: wellKnownZeros }),
  create(EverythingSchema, { name: "well-known least", wellKnown: wellKnownLeast }),
  create(EverythingSchema, { name: "well-known most", wellKnown: wellKnownMost }),
  deep(),
];

/** A message of exactly so many bytes. */
function filled(name: string, bytes: number): Everything {
  const message = create(EverythingSchema, { name, filling: new Uint8Array(bytes).fill(7) });
  const over = toBinary(EverythingSchema, message).length - bytes;
  message.filling = message.filling.subarray(0, bytes - over);
  if (toBinary(EverythingSchema, message).length !== bytes) {
    throw new Error("another length than was asked for");
  }
  return message;
}

const expected = new Map([...cases, filled("largest", limit)].map((message) => [message.name, message]));

/** Bit by bit; only the order of maps and unknown fields are nobody's business here. */
function same(a: Everything, b: Everything): boolean {
  const sameMaps = a.maps === undefined || b.maps === undefined ? a.maps === b.maps : equals(MapsSchema, a.maps, b.maps);
  const bytes = (of: Everything): string => {
    const { maps: _, ...rest } = of;
    const encoded = toBinary(EverythingSchema, create(EverythingSchema, rest), { writeUnknownFields: false });
    // Go's NaN has a bit more than everybody's, and Node may keep it.
    return Buffer.from(encoded).toString("latin1").replaceAll("\x01\0\0\0\0\0\xf8\x7f", "\0\0\0\0\0\0\xf8\x7f");
  };
  return sameMaps && bytes(a) === bytes(b);
}

function compare(from: string, body: Everything): string {
  const wanted = expected.get(body.name);
  return wanted !== undefined && same(body, wanted) ? `same ${from}: ${body.name}` : `differs ${from}: ${body.name}`;
}

/** The code of what is thrown. */
async function refused(what: Promise<unknown>): Promise<string> {
  try {
    await what;
  } catch (error) {
    return error instanceof QwerqError ? error.code : String(error);
  }
  return "nothing";
}

/** Publishes every case, the largest message and a larger one. */
async function publish(): Promise<void> {
  for (const message of expected.values()) {
    await q.fromTypescript.publish(message);
  }
  console.log(`published ${expected.size}`);
  console.log(`refused ${await refused(q.fromTypescript.publish(filled("larger", limit + 1)))}`);
}

/** Reads what each language published, publishes it again, and reads what a newer contract has more. */
async function consume(): Promise<void> {
  const sources = { rust: q.fromRust, typescript: q.fromTypescript, go: q.fromGo, future: q.fromFuture };
  for (const [from, queue] of Object.entries(sources)) {
    const count = from === "future" ? 1 : expected.size;
    const seen = new Set<string>();
    for await (const message of queue.consume({ group: "typescript" })) {
      console.log(compare(from, message.body));
      seen.add(message.body.name);
      await q.againTypescript.publish(message.body);
      await message.ackConfirmed();
      if (seen.size === count) {
        break;
      }
    }
  }
}

/** Answers every call with its request until stdin ends. */
async function serve(): Promise<void> {
  const responder = q.askTypescript.serve(async (request) => request);
  await responder.ready;
  console.log("serving");
  for await (const _ of process.stdin) {
    // Nothing is said there.
  }
  await responder.close();
}

/** Calls whoever serves in each language, with every case, the largest message and a larger one. */
async function call(): Promise<void> {
  for (const [to, ask] of Object.entries({ rust: q.askRust, typescript: q.askTypescript, go: q.askGo })) {
    for (const message of expected.values()) {
      const reply = await ask(message);
      console.log(compare(to, reply) + (same(message, reply) ? "" : " with another's reply"));
    }
    console.log(`refused ${to}: ${await refused(ask(filled("larger", limit + 1)))}`);
  }
}

const roles: Record<string, () => Promise<void>> = { publish, consume, serve, call };
await roles[role ?? ""]?.();
await q.close();
