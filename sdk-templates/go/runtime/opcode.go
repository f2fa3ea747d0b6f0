// Made from the crate qwerq-proto by QWERQ_BLESS=1 cargo test -p qwerq-codegen --lib wire.
//
// Opcodes, one byte each: what a frame asks or says. docs/protocol.md has the table; a number is never reused.

package qwerq

const (
	opPublish               opcode = 0x01
	opPublishAck            opcode = 0x02
	opConsume               opcode = 0x03
	opMessage               opcode = 0x04
	opAck                   opcode = 0x05
	opNack                  opcode = 0x06
	opError                 opcode = 0x07
	opExtendVisibility      opcode = 0x08
	opExtendVisibilityAck   opcode = 0x09
	opHeartbeat             opcode = 0x0a
	opUnsubscribe           opcode = 0x0b
	opConsumeAck            opcode = 0x0c
	opSettled               opcode = 0x0d
	opDone                  opcode = 0x0e
	opSchemaRegister        opcode = 0x10
	opSchemaGet             opcode = 0x11
	opSchemaResponse        opcode = 0x12
	opSchemaChanged         opcode = 0x13
	opCall                  opcode = 0x20
	opCallResponse          opcode = 0x21
	opSchemaList            opcode = 0x30
	opSchemaListResponse    opcode = 0x31
	opQueueList             opcode = 0x32
	opQueueListResponse     opcode = 0x33
	opHello                 opcode = 0x40
	opHelloAck              opcode = 0x41
	opSeek                  opcode = 0x50
	opCommitOffset          opcode = 0x51
	opCredit                opcode = 0x58
	opRelease               opcode = 0x59
	opReject                opcode = 0x5a
	opFetch                 opcode = 0x5b
	opFetched               opcode = 0x5c
	opCancel                opcode = 0x5d
	opSubscriptionEnded     opcode = 0x5e
	opGoAway                opcode = 0x5f
	opQueueCreate           opcode = 0x60
	opQueueUpdate           opcode = 0x61
	opQueueDelete           opcode = 0x62
	opQueueInfo             opcode = 0x63
	opQueueInfoResponse     opcode = 0x64
	opQueuePurge            opcode = 0x65
	opQueuePurged           opcode = 0x66
	opGroupCreate           opcode = 0x67
	opGroupDelete           opcode = 0x68
	opPeek                  opcode = 0x69
	opExplain               opcode = 0x6a
	opExplained             opcode = 0x6b
	opDeadLetters           opcode = 0x6c
	opRedrive               opcode = 0x6d
	opRedriven              opcode = 0x6e
	opDeadLettersPurge      opcode = 0x6f
	opSchemaActivate        opcode = 0x70
	opSchemaRetire          opcode = 0x71
	opSchemaDelete          opcode = 0x72
	opSchemaClients         opcode = 0x73
	opSchemaClientsResponse opcode = 0x74
	opClusterStatus         opcode = 0x78
	opClusterStatusResponse opcode = 0x79
	opClusterChange         opcode = 0x7a
)

var opcodeNames = map[opcode]string{
	opPublish:               "PUBLISH",
	opPublishAck:            "PUBLISH_ACK",
	opConsume:               "CONSUME",
	opMessage:               "MESSAGE",
	opAck:                   "ACK",
	opNack:                  "NACK",
	opError:                 "ERROR",
	opExtendVisibility:      "EXTEND_VISIBILITY",
	opExtendVisibilityAck:   "EXTEND_VISIBILITY_ACK",
	opHeartbeat:             "HEARTBEAT",
	opUnsubscribe:           "UNSUBSCRIBE",
	opConsumeAck:            "CONSUME_ACK",
	opSettled:               "SETTLED",
	opDone:                  "DONE",
	opSchemaRegister:        "SCHEMA_REGISTER",
	opSchemaGet:             "SCHEMA_GET",
	opSchemaResponse:        "SCHEMA_RESPONSE",
	opSchemaChanged:         "SCHEMA_CHANGED",
	opCall:                  "CALL",
	opCallResponse:          "CALL_RESPONSE",
	opSchemaList:            "SCHEMA_LIST",
	opSchemaListResponse:    "SCHEMA_LIST_RESPONSE",
	opQueueList:             "QUEUE_LIST",
	opQueueListResponse:     "QUEUE_LIST_RESPONSE",
	opHello:                 "HELLO",
	opHelloAck:              "HELLO_ACK",
	opSeek:                  "SEEK",
	opCommitOffset:          "COMMIT_OFFSET",
	opCredit:                "CREDIT",
	opRelease:               "RELEASE",
	opReject:                "REJECT",
	opFetch:                 "FETCH",
	opFetched:               "FETCHED",
	opCancel:                "CANCEL",
	opSubscriptionEnded:     "SUBSCRIPTION_ENDED",
	opGoAway:                "GOAWAY",
	opQueueCreate:           "QUEUE_CREATE",
	opQueueUpdate:           "QUEUE_UPDATE",
	opQueueDelete:           "QUEUE_DELETE",
	opQueueInfo:             "QUEUE_INFO",
	opQueueInfoResponse:     "QUEUE_INFO_RESPONSE",
	opQueuePurge:            "QUEUE_PURGE",
	opQueuePurged:           "QUEUE_PURGED",
	opGroupCreate:           "GROUP_CREATE",
	opGroupDelete:           "GROUP_DELETE",
	opPeek:                  "PEEK",
	opExplain:               "EXPLAIN",
	opExplained:             "EXPLAINED",
	opDeadLetters:           "DEAD_LETTERS",
	opRedrive:               "REDRIVE",
	opRedriven:              "REDRIVEN",
	opDeadLettersPurge:      "DEAD_LETTERS_PURGE",
	opSchemaActivate:        "SCHEMA_ACTIVATE",
	opSchemaRetire:          "SCHEMA_RETIRE",
	opSchemaDelete:          "SCHEMA_DELETE",
	opSchemaClients:         "SCHEMA_CLIENTS",
	opSchemaClientsResponse: "SCHEMA_CLIENTS_RESPONSE",
	opClusterStatus:         "CLUSTER_STATUS",
	opClusterStatusResponse: "CLUSTER_STATUS_RESPONSE",
	opClusterChange:         "CLUSTER_CHANGE",
}
