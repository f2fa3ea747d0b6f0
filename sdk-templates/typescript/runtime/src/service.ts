// A queue that is called: typed requests, typed replies, from both sides.

import type { DescMessage, MessageInitShape, MessageShape } from "@bufbuild/protobuf";

import type { CallOptions, Client } from "./client.js";
import { type ContractInfo, decoder, encode, fingerprintBytes } from "./queue.js";
import type { CallContext, Responder, ServeOptions } from "./responder.js";

/** Calls and serves a queue. It is a function: `await quote({ ... })` is `await quote.call({ ... })`. */
export interface Service<I extends DescMessage, O extends DescMessage> {
  (request: MessageInitShape<I>, options?: CallOptions): Promise<MessageShape<O>>;
  /** The contract that this was generated from. */
  readonly contract: ContractInfo;
  /** Asks whoever serves the queue and resolves with the reply. See `Client.call` for what it throws. */
  call(request: MessageInitShape<I>, options?: CallOptions): Promise<MessageShape<O>>;
  /** Answers calls with what the handler returns. A CallError that it throws reaches the caller as it is. */
  serve(
    handler: (request: MessageShape<I>, context: CallContext) => MessageInitShape<O> | Promise<MessageInitShape<O>>,
    options?: ServeOptions,
  ): Responder<MessageShape<I>>;
}

/** What generated code makes its members of. */
export function makeService<I extends DescMessage, O extends DescMessage>(
  client: Client,
  request: I,
  reply: O,
  contract: ContractInfo,
): Service<I, O> {
  const fingerprint = fingerprintBytes(contract);
  const decodeReply = decoder(reply);
  const call = async (message: MessageInitShape<I>, options?: CallOptions): Promise<MessageShape<O>> => {
    const { payload } = await client.call(contract.queue, encode(request, message), options, fingerprint);
    return decodeReply(payload, `the reply (queue ${contract.queue})`);
  };
  const serve: Service<I, O>["serve"] = (handler, options = {}) =>
    client.serveAs(
      contract.queue,
      async (message, context) => encode(reply, await handler(message, context)),
      options,
      fingerprint,
      decoder(request),
    );
  const ask = (message: MessageInitShape<I>, options?: CallOptions): Promise<MessageShape<O>> => call(message, options);
  return Object.assign(ask, { contract, call, serve });
}
