// The numbers of all frames. What each one carries and what answers it is in docs/protocol.md.

/** Opcodes by name. */
export const Opcode = {
  Publish: 0x01,
  PublishAck: 0x02,
  Consume: 0x03,
  Message: 0x04,
  Ack: 0x05,
  Nack: 0x06,
  Error: 0x07,
  ExtendVisibility: 0x08,
  ExtendVisibilityAck: 0x09,
  Heartbeat: 0x0a,
  Unsubscribe: 0x0b,
  ConsumeAck: 0x0c,
  Settled: 0x0d,
  Done: 0x0e,
  SchemaRegister: 0x10,
  SchemaGet: 0x11,
  SchemaResponse: 0x12,
  SchemaChanged: 0x13,
  Call: 0x20,
  CallResponse: 0x21,
  SchemaList: 0x30,
  SchemaListResponse: 0x31,
  QueueList: 0x32,
  QueueListResponse: 0x33,
  Hello: 0x40,
  HelloAck: 0x41,
  Seek: 0x50,
  CommitOffset: 0x51,
  Credit: 0x58,
  Release: 0x59,
  Reject: 0x5a,
  Fetch: 0x5b,
  Fetched: 0x5c,
  Cancel: 0x5d,
  SubscriptionEnded: 0x5e,
  GoAway: 0x5f,
  QueueCreate: 0x60,
  QueueUpdate: 0x61,
  QueueDelete: 0x62,
  QueueInfo: 0x63,
  QueueInfoResponse: 0x64,
  QueuePurge: 0x65,
  QueuePurged: 0x66,
  GroupCreate: 0x67,
  GroupDelete: 0x68,
  Peek: 0x69,
  Explain: 0x6a,
  Explained: 0x6b,
  DeadLetters: 0x6c,
  Redrive: 0x6d,
  Redriven: 0x6e,
  DeadLettersPurge: 0x6f,
} as const;

const NAMES: ReadonlyMap<number, string> = new Map(
  Object.entries(Opcode).map(([name, opcode]) => [opcode, name.replace(/(?<=[a-z])(?=[A-Z])/g, "_").replace("Go_A", "GoA").toUpperCase()]),
);

/** `PUBLISH_ACK` for 2; `undefined` for a number that this version does not know. */
export function opcodeName(opcode: number): string | undefined {
  return NAMES.get(opcode);
}
