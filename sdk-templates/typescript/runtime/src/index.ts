// The runtime as users see it. Generated code sits on `makeQueue` and `makeService`.

export { Admin, type DeadLetterChoice, type QueueOptionsInit } from "./admin.js";
export type { ReconnectOptions } from "./backoff.js";
export {
  type CallOptions,
  Client,
  type ConnectOptions,
  type FetchOptions,
  type Handler,
  type OutMessage,
  type Receipt,
  type Replied,
  type Settlement,
  VERSION,
  connectClient,
} from "./client.js";
export { Delivery, type NackOptions, StoredMessage } from "./delivery.js";
export type { ConnectionState } from "./driver.js";
export {
  ClosedError,
  ConnectError,
  DecodeError,
  DisconnectedError,
  type ErrorCode,
  FaultError,
  ProtocolError,
  QwerqError,
  RefusedError,
  UnavailableError,
} from "./errors.js";
export type { HeadersInit, Published, PublishOptions } from "./publish.js";
export { type ContractInfo, Queue, makeQueue } from "./queue.js";
export { type CallContext, CallError, Responder, type ServeOptions } from "./responder.js";
export { type Service, makeService } from "./service.js";
export { type ConsumeOptions, type Opened, type StartAt, Subscription } from "./subscription.js";
export { type Dial, type Transport, type TransportEvents, dial } from "./transport.js";
