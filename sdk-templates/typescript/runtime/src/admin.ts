// What operators' tools ask for: queues, groups, schemas, dead letters. Answers are the protocol's own messages.

import type { DescMessage, MessageInitShape, MessageShape } from "@bufbuild/protobuf";

import type { Arrival } from "./arrival.js";
import { StoredMessage } from "./delivery.js";
import { Opcode } from "./opcode.js";
import { type StartAt, wireStartAt } from "./subscription.js";
import {
  CommitOffsetSchema,
  type DeadLettersSchema as DeadLettersDescriptor,
  DeadLettersSchema,
  type Delivered,
  DoneSchema,
  ExplainSchema,
  ExplainedSchema,
  type Explanation,
  FetchedSchema,
  GroupRequestSchema,
  PeekSchema,
  PurgedSchema,
  QueueCreateSchema,
  type QueueInfo,
  QueueInfoSchema,
  QueueListResponseSchema,
  QueueListSchema,
  QueueNameSchema,
  type QueueOptionsSchema,
  QueueUpdateSchema,
  RedriveSchema,
  type Redriven,
  RedrivenSchema,
  type SchemaClient,
  SchemaClientsSchema,
  SchemaGetSchema,
  SchemaListResponseSchema,
  SchemaListSchema,
  type SchemaRegisterSchema as SchemaRegisterDescriptor,
  SchemaRegisterSchema,
  type SchemaResponse,
  SchemaResponseSchema,
  SchemaSelectSchema,
  type SchemaVersion,
} from "./wire_pb.js";

/** Which dead letters; what is not set does not narrow the choice. */
export type DeadLetterChoice = MessageInitShape<typeof DeadLettersDescriptor>;

/** A queue's options; what is absent is the broker's default, or stays. */
export type QueueOptionsInit = MessageInitShape<typeof QueueOptionsSchema>;

type Ask = <I extends DescMessage, O extends DescMessage>(
  opcode: number,
  schema: I,
  message: MessageInitShape<I>,
  expect: number,
  reply: O,
  safe: boolean,
) => Promise<MessageShape<O>>;

/** Requests about queues as a whole. Each throws RefusedError when the broker says no. */
export class Admin {
  readonly #ask: Ask;

  /** @internal */
  constructor(ask: Ask) {
    this.#ask = ask;
  }

  /** Creates a queue. One that exists with the same options is not an error. */
  createQueue(name: string, options: QueueOptionsInit = {}): Promise<QueueInfo> {
    return this.#ask(Opcode.QueueCreate, QueueCreateSchema, { name, options }, Opcode.QueueInfoResponse, QueueInfoSchema, true);
  }

  /** Changes options. */
  updateQueue(name: string, options: QueueOptionsInit): Promise<QueueInfo> {
    return this.#ask(Opcode.QueueUpdate, QueueUpdateSchema, { name, options }, Opcode.QueueInfoResponse, QueueInfoSchema, true);
  }

  /** Deletes a queue with everything in it. */
  async deleteQueue(name: string): Promise<void> {
    await this.#ask(Opcode.QueueDelete, QueueNameSchema, { name }, Opcode.Done, DoneSchema, false);
  }

  /** A queue's options, counters and groups. */
  queueInfo(name: string): Promise<QueueInfo> {
    return this.#ask(Opcode.QueueInfo, QueueNameSchema, { name }, Opcode.QueueInfoResponse, QueueInfoSchema, true);
  }

  /** All queues, by name. */
  async listQueues(): Promise<QueueInfo[]> {
    const list = await this.#ask(Opcode.QueueList, QueueListSchema, {}, Opcode.QueueListResponse, QueueListResponseSchema, true);
    return list.queues;
  }

  /** Removes all messages; resolves with how many. */
  async purge(name: string): Promise<bigint> {
    const purged = await this.#ask(Opcode.QueuePurge, QueueNameSchema, { name }, Opcode.QueuePurged, PurgedSchema, false);
    return purged.messages;
  }

  /** Creates a consumer group. */
  async createGroup(queue: string, group: string, startAt: StartAt = "beginning"): Promise<void> {
    const request = { queue, group, startAt: wireStartAt(startAt) };
    await this.#ask(Opcode.GroupCreate, GroupRequestSchema, request, Opcode.Done, DoneSchema, false);
  }

  /** Deletes a consumer group and its progress. */
  async deleteGroup(queue: string, group: string): Promise<void> {
    await this.#ask(Opcode.GroupDelete, GroupRequestSchema, { queue, group }, Opcode.Done, DoneSchema, false);
  }

  /** Moves a group; its leases, attempts and key locks end. */
  async seek(queue: string, group: string, startAt: StartAt): Promise<void> {
    const request = { queue, group, startAt: wireStartAt(startAt) };
    await this.#ask(Opcode.Seek, GroupRequestSchema, request, Opcode.Done, DoneSchema, true);
  }

  /** Streams: settles everything up to and including an offset. */
  async commitOffset(queue: string, group: string, offset: bigint | number): Promise<void> {
    const request = { queue, group, offset: BigInt(offset) };
    await this.#ask(Opcode.CommitOffset, CommitOffsetSchema, request, Opcode.Done, DoneSchema, true);
  }

  /** Reads stored messages without leasing them. */
  async peek(queue: string, fromSeq: bigint | number = 0, max = 1): Promise<StoredMessage<Uint8Array>[]> {
    const request = { queue, fromSeq: BigInt(fromSeq), max };
    const fetched = await this.#ask(Opcode.Peek, PeekSchema, request, Opcode.Fetched, FetchedSchema, true);
    return fetched.messages.map((message) => new StoredMessage(queue, arrivalOf(message), raw));
  }

  /** Why a message, an ordering key or a group does not move. */
  async explain(about: MessageInitShape<typeof ExplainSchema>): Promise<Explanation[]> {
    const explained = await this.#ask(Opcode.Explain, ExplainSchema, about, Opcode.Explained, ExplainedSchema, true);
    return explained.explanations;
  }

  /** Dead letters of a queue, and where to go on (`fromSeq`) if there may be more. */
  async deadLetters(choice: DeadLetterChoice): Promise<{ letters: StoredMessage<Uint8Array>[]; nextSeq: bigint | undefined }> {
    const fetched = await this.#ask(Opcode.DeadLetters, DeadLettersSchema, choice, Opcode.Fetched, FetchedSchema, true);
    const letters = fetched.messages.map((message) => new StoredMessage(`${choice.queue ?? ""}.dlq`, arrivalOf(message), raw));
    return { letters, nextSeq: fetched.nextSeq };
  }

  /** Sends dead letters back to their group, or elsewhere. */
  redrive(request: MessageInitShape<typeof RedriveSchema>): Promise<Redriven> {
    return this.#ask(Opcode.Redrive, RedriveSchema, request, Opcode.Redriven, RedrivenSchema, false);
  }

  /** Removes dead letters; resolves with how many, and where to go on if there may be more. */
  async purgeDeadLetters(choice: DeadLetterChoice): Promise<{ messages: bigint; nextSeq: bigint | undefined }> {
    const { messages, nextSeq } = await this.#ask(
      Opcode.DeadLettersPurge,
      DeadLettersSchema,
      choice,
      Opcode.QueuePurged,
      PurgedSchema,
      false,
    );
    return { messages, nextSeq };
  }

  /** Registers a contract. Known content becomes active again. */
  registerSchema(schema: MessageInitShape<typeof SchemaRegisterDescriptor>): Promise<SchemaResponse> {
    return this.#ask(Opcode.SchemaRegister, SchemaRegisterSchema, schema, Opcode.SchemaResponse, SchemaResponseSchema, true);
  }

  /** A queue's contract, with its descriptors; without a version the active one. */
  schema(queue: string, version = 0): Promise<SchemaResponse> {
    return this.#ask(Opcode.SchemaGet, SchemaGetSchema, { queue, version }, Opcode.SchemaResponse, SchemaResponseSchema, true);
  }

  /** Makes a version active, after the compatibility check; `force` overrides it. */
  activateSchema(queue: string, version: number, force = false): Promise<SchemaResponse> {
    const select = { queue, version, force };
    return this.#ask(Opcode.SchemaActivate, SchemaSelectSchema, select, Opcode.SchemaResponse, SchemaResponseSchema, true);
  }

  /** Has the publishers of a version refused. */
  retireSchema(queue: string, version: number): Promise<SchemaResponse> {
    return this.#ask(Opcode.SchemaRetire, SchemaSelectSchema, { queue, version }, Opcode.SchemaResponse, SchemaResponseSchema, true);
  }

  /** Takes a queue's contract away. */
  async deleteSchema(queue: string): Promise<void> {
    await this.#ask(Opcode.SchemaDelete, QueueNameSchema, { name: queue }, Opcode.Done, DoneSchema, false);
  }

  /** Who publishes to a queue and consumes from it, and by which version of its contract. */
  async schemaClients(queue: string): Promise<SchemaClient[]> {
    const clients = await this.#ask(
      Opcode.SchemaClients,
      QueueNameSchema,
      { name: queue },
      Opcode.SchemaClientsResponse,
      SchemaClientsSchema,
      true,
    );
    return clients.clients;
  }

  /** The active contracts of all queues, or every version, or one queue's. */
  async listSchemas(choice: MessageInitShape<typeof SchemaListSchema> = {}): Promise<SchemaVersion[]> {
    const list = await this.#ask(Opcode.SchemaList, SchemaListSchema, choice, Opcode.SchemaListResponse, SchemaListResponseSchema, true);
    return list.versions;
  }
}

function arrivalOf(delivered: Delivered): Arrival {
  const { leaseMs, publishedAtMs } = delivered;
  return { ...delivered, leaseMs: Number(leaseMs), publishedAtMs: Number(publishedAtMs) };
}

function raw(payload: Uint8Array): Uint8Array {
  return payload;
}
