// Made from the crate qwerq-proto by QWERQ_BLESS=1 cargo test -p qwerq-codegen --lib wire.
//
// The broker's error codes. Each has a page, docs/errors/<name>.md; read on in code.go.

package qwerq

const (
	// ErrInvalidArgument: A field of the request has a value that it cannot have.
	ErrInvalidArgument Code = 1001
	// ErrInvalidName: A queue or group name breaks the naming rule.
	ErrInvalidName Code = 1002
	// ErrQueueNotFound: There is no queue of that name.
	ErrQueueNotFound Code = 1003
	// ErrQueueExists: The queue exists with other options.
	ErrQueueExists Code = 1004
	// ErrGroupNotFound: The queue has no consumer group of that name.
	ErrGroupNotFound Code = 1005
	// ErrGroupRequired: The queue has named groups and no `default`; say which group consumes.
	ErrGroupRequired Code = 1006
	// ErrQueueFull: The queue is at one of its limits.
	ErrQueueFull Code = 1007
	// ErrMessageTooLarge: The message is larger than the queue's max_message_bytes.
	ErrMessageTooLarge Code = 1008
	// ErrDedupFull: The queue remembers as many idempotency keys as dedup_max_keys allows.
	ErrDedupFull Code = 1009
	// ErrReservedQueue: Only the broker writes to a dead letter queue.
	ErrReservedQueue Code = 1010
	// ErrInvalidHeader: A header is reserved, repeated, or beyond the limits.
	ErrInvalidHeader Code = 1011
	// ErrStaleLease: The lease has expired, was settled, or belongs to a former epoch.
	ErrStaleLease Code = 1012
	// ErrUnknownSubscription: The connection has no subscription of that number.
	ErrUnknownSubscription Code = 1013
	// ErrSubscriptionExists: The connection already has a subscription of that number.
	ErrSubscriptionExists Code = 1014
	// ErrUnsupported: The broker does not know this opcode or feature.
	ErrUnsupported Code = 1015
	// ErrUnauthorized: The token is missing or wrong.
	ErrUnauthorized Code = 1016
	// ErrAtomicRefused: Another item of the same atomic publish was refused.
	ErrAtomicRefused Code = 1017
	// ErrWrongMode: The request does not fit the queue's mode.
	ErrWrongMode Code = 1018
	// ErrGroupExists: The queue already has a consumer group of that name.
	ErrGroupExists Code = 1019
	// ErrOriginRefused: The Host or the Origin of an HTTP request is none that the broker answers to.
	ErrOriginRefused Code = 1020
	// ErrSchemaViolation: The payload breaks the queue's contract.
	ErrSchemaViolation Code = 1101
	// ErrContractRequired: Strict mode: the queue has no contract.
	ErrContractRequired Code = 1102
	// ErrSchemaNotFound: The queue has no contract, or not that version of it.
	ErrSchemaNotFound Code = 1103
	// ErrSchemaInvalid: The descriptor set is not one, or does not hold together.
	ErrSchemaInvalid Code = 1104
	// ErrSchemaIncompatible: The new version breaks the queue's compatibility rule.
	ErrSchemaIncompatible Code = 1105
	// ErrContractUnknown: Strict mode: the broker does not know the publisher's contract.
	ErrContractUnknown Code = 1106
	// ErrVersionRetired: The publisher's version of the contract has been retired.
	ErrVersionRetired Code = 1107
	// ErrTypeNotFound: The descriptor set holds no message of that name.
	ErrTypeNotFound Code = 1108
	// ErrReplyTypeMissing: The queue's contract has no reply type, so it cannot be called.
	ErrReplyTypeMissing Code = 1109
	// ErrOverloaded: The publish window or a waiting line is full.
	ErrOverloaded Code = 2001
	// ErrNotLeader: Another node leads; the details name it.
	ErrNotLeader Code = 2002
	// ErrTimeout: The deadline passed.
	ErrTimeout Code = 2003
	// ErrNoResponders: Nobody serves calls on this queue.
	ErrNoResponders Code = 2004
	// ErrResponderLost: The responder disconnected before it replied.
	ErrResponderLost Code = 2005
	// ErrStorageFull: The disk or the store's map is down to its reserve.
	ErrStorageFull Code = 2006
	// ErrDraining: The broker is shutting down.
	ErrDraining Code = 2007
	// ErrCancelled: The client cancelled the request.
	ErrCancelled Code = 2008
	// ErrStarting: The broker is starting: it reads what it has stored.
	ErrStarting Code = 2009
	// ErrFrameTooLarge: A frame is longer than the negotiated limit.
	ErrFrameTooLarge Code = 3001
	// ErrMalformedFrame: A frame cannot be parsed.
	ErrMalformedFrame Code = 3002
	// ErrMalformedMessage: A frame's payload is not the message that its opcode demands.
	ErrMalformedMessage Code = 3003
	// ErrHelloRequired: The first frame must be HELLO, and only the first.
	ErrHelloRequired Code = 3004
	// ErrHelloTimeout: No HELLO arrived in time.
	ErrHelloTimeout Code = 3005
	// ErrVersionUnsupported: Client and broker share no protocol version.
	ErrVersionUnsupported Code = 3006
	// ErrUnnegotiatedFlag: A frame carries a flag that was not negotiated.
	ErrUnnegotiatedFlag Code = 3007
	// ErrHeartbeatLost: The peer was silent for two heartbeat intervals.
	ErrHeartbeatLost Code = 3008
	// ErrCorrelationRequired: A request that may wait must be correlated.
	ErrCorrelationRequired Code = 3009
	// ErrInternal: The broker failed; its log says why.
	ErrInternal Code = 4001
)

var codeNames = map[Code]string{
	ErrInvalidArgument:     "invalid-argument",
	ErrInvalidName:         "invalid-name",
	ErrQueueNotFound:       "queue-not-found",
	ErrQueueExists:         "queue-exists",
	ErrGroupNotFound:       "group-not-found",
	ErrGroupRequired:       "group-required",
	ErrQueueFull:           "queue-full",
	ErrMessageTooLarge:     "message-too-large",
	ErrDedupFull:           "dedup-full",
	ErrReservedQueue:       "reserved-queue",
	ErrInvalidHeader:       "invalid-header",
	ErrStaleLease:          "stale-lease",
	ErrUnknownSubscription: "unknown-subscription",
	ErrSubscriptionExists:  "subscription-exists",
	ErrUnsupported:         "unsupported",
	ErrUnauthorized:        "unauthorized",
	ErrAtomicRefused:       "atomic-refused",
	ErrWrongMode:           "wrong-mode",
	ErrGroupExists:         "group-exists",
	ErrOriginRefused:       "origin-refused",
	ErrSchemaViolation:     "schema-violation",
	ErrContractRequired:    "contract-required",
	ErrSchemaNotFound:      "schema-not-found",
	ErrSchemaInvalid:       "schema-invalid",
	ErrSchemaIncompatible:  "schema-incompatible",
	ErrContractUnknown:     "contract-unknown",
	ErrVersionRetired:      "version-retired",
	ErrTypeNotFound:        "type-not-found",
	ErrReplyTypeMissing:    "reply-type-missing",
	ErrOverloaded:          "overloaded",
	ErrNotLeader:           "not-leader",
	ErrTimeout:             "timeout",
	ErrNoResponders:        "no-responders",
	ErrResponderLost:       "responder-lost",
	ErrStorageFull:         "storage-full",
	ErrDraining:            "draining",
	ErrCancelled:           "cancelled",
	ErrStarting:            "starting",
	ErrFrameTooLarge:       "frame-too-large",
	ErrMalformedFrame:      "malformed-frame",
	ErrMalformedMessage:    "malformed-message",
	ErrHelloRequired:       "hello-required",
	ErrHelloTimeout:        "hello-timeout",
	ErrVersionUnsupported:  "version-unsupported",
	ErrUnnegotiatedFlag:    "unnegotiated-flag",
	ErrHeartbeatLost:       "heartbeat-lost",
	ErrCorrelationRequired: "correlation-required",
	ErrInternal:            "internal",
}
