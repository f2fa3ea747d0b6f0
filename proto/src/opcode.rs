//! The opcodes, one byte each. A number is never reused; an unknown one is answered with ERROR `unsupported`.

macro_rules! opcodes {
    ($($name:ident = $value:literal, $text:literal, $doc:literal;)*) => {
        /// What a frame asks or says.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Opcode {
            $(#[doc = $doc] $name = $value,)*
        }

        impl Opcode {
            /// Every opcode, in numeric order.
            pub const ALL: &'static [Opcode] = &[$(Opcode::$name,)*];

            /// The opcode of that number, if there is one.
            #[must_use]
            pub fn from_u8(value: u8) -> Option<Opcode> {
                match value {
                    $($value => Some(Opcode::$name),)*
                    _ => None,
                }
            }

            /// The name that docs/protocol.md uses, such as `PUBLISH_ACK`.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Opcode::$name => $text,)*
                }
            }
        }
    };
}

opcodes! {
    Publish = 0x01, "PUBLISH", "Client: `Publish`; answered by PUBLISH_ACK.";
    PublishAck = 0x02, "PUBLISH_ACK", "Broker: `PublishAck`.";
    Consume = 0x03, "CONSUME", "Client: `Consume`; answered by CONSUME_ACK.";
    Message = 0x04, "MESSAGE", "Broker: `Deliver`, messages of one subscription.";
    Ack = 0x05, "ACK", "Client: `Settle`; SETTLED if `confirm`.";
    Nack = 0x06, "NACK", "Client: `Settle`; SETTLED if `confirm`.";
    Error = 0x07, "ERROR", "Broker: `Error`.";
    ExtendVisibility = 0x08, "EXTEND_VISIBILITY", "Client: `Settle` with the new length; answered by EXTEND_VISIBILITY_ACK if `confirm`.";
    ExtendVisibilityAck = 0x09, "EXTEND_VISIBILITY_ACK", "Broker: `Settled`.";
    Heartbeat = 0x0a, "HEARTBEAT", "Both: `Heartbeat`; not answered.";
    Unsubscribe = 0x0b, "UNSUBSCRIBE", "Client: `Unsubscribe`; answered by SUBSCRIPTION_ENDED.";
    ConsumeAck = 0x0c, "CONSUME_ACK", "Broker: `ConsumeAck`.";
    Settled = 0x0d, "SETTLED", "Broker: `Settled`, the reply to a confirmed ACK, NACK, REJECT or RELEASE.";
    Done = 0x0e, "DONE", "Broker: `Done`, the reply of a request without a result of its own.";
    SchemaRegister = 0x10, "SCHEMA_REGISTER", "Client: `SchemaRegister`; answered by SCHEMA_RESPONSE.";
    SchemaGet = 0x11, "SCHEMA_GET", "Client: `SchemaGet`; answered by SCHEMA_RESPONSE.";
    SchemaResponse = 0x12, "SCHEMA_RESPONSE", "Broker: `SchemaResponse`.";
    SchemaChanged = 0x13, "SCHEMA_CHANGED", "Broker: `SchemaChanged`, to clients with the feature `schema-events`.";
    Call = 0x20, "CALL", "Client to broker, broker to responder: `Call`.";
    CallResponse = 0x21, "CALL_RESPONSE", "Responder to broker, broker to caller: `CallResponse`.";
    SchemaList = 0x30, "SCHEMA_LIST", "Client: `SchemaList`; answered by SCHEMA_LIST_RESPONSE.";
    SchemaListResponse = 0x31, "SCHEMA_LIST_RESPONSE", "Broker: `SchemaListResponse`.";
    QueueList = 0x32, "QUEUE_LIST", "Client: `QueueList`; answered by QUEUE_LIST_RESPONSE.";
    QueueListResponse = 0x33, "QUEUE_LIST_RESPONSE", "Broker: `QueueListResponse`.";
    Hello = 0x40, "HELLO", "Client: `Hello`, the first frame of a connection.";
    HelloAck = 0x41, "HELLO_ACK", "Broker: `HelloAck`.";
    Seek = 0x50, "SEEK", "Client: `GroupRequest`; answered by DONE.";
    CommitOffset = 0x51, "COMMIT_OFFSET", "Client: `CommitOffset`; answered by DONE.";
    Credit = 0x58, "CREDIT", "Client: `Credit`; not answered.";
    Release = 0x59, "RELEASE", "Client: `Settle`; back without counting an attempt.";
    Reject = 0x5a, "REJECT", "Client: `Settle`; to failure handling at once.";
    Fetch = 0x5b, "FETCH", "Client: `Fetch`; answered by FETCHED.";
    Fetched = 0x5c, "FETCHED", "Broker: `Fetched`.";
    Cancel = 0x5d, "CANCEL", "Client: `Cancel`; not answered.";
    SubscriptionEnded = 0x5e, "SUBSCRIPTION_ENDED", "Broker: `SubscriptionEnded`.";
    GoAway = 0x5f, "GOAWAY", "Broker: `GoAway`.";
    QueueCreate = 0x60, "QUEUE_CREATE", "Client: `QueueCreate`; answered by QUEUE_INFO_RESPONSE.";
    QueueUpdate = 0x61, "QUEUE_UPDATE", "Client: `QueueUpdate`; answered by QUEUE_INFO_RESPONSE.";
    QueueDelete = 0x62, "QUEUE_DELETE", "Client: `QueueName`; answered by DONE.";
    QueueInfo = 0x63, "QUEUE_INFO", "Client: `QueueName`; answered by QUEUE_INFO_RESPONSE.";
    QueueInfoResponse = 0x64, "QUEUE_INFO_RESPONSE", "Broker: `QueueInfo`.";
    QueuePurge = 0x65, "QUEUE_PURGE", "Client: `QueueName`; answered by QUEUE_PURGED.";
    QueuePurged = 0x66, "QUEUE_PURGED", "Broker: `Purged`.";
    GroupCreate = 0x67, "GROUP_CREATE", "Client: `GroupRequest`; answered by DONE.";
    GroupDelete = 0x68, "GROUP_DELETE", "Client: `GroupRequest`; answered by DONE.";
    Peek = 0x69, "PEEK", "Client: `Peek`; answered by FETCHED, without leases.";
    Explain = 0x6a, "EXPLAIN", "Client: `Explain`; answered by EXPLAINED.";
    Explained = 0x6b, "EXPLAINED", "Broker: `Explained`.";
    DeadLetters = 0x6c, "DEAD_LETTERS", "Client: `DeadLetters`; answered by FETCHED, without leases.";
    Redrive = 0x6d, "REDRIVE", "Client: `Redrive`; answered by REDRIVEN.";
    Redriven = 0x6e, "REDRIVEN", "Broker: `Redriven`.";
    DeadLettersPurge = 0x6f, "DEAD_LETTERS_PURGE", "Client: `DeadLetters`; answered by QUEUE_PURGED.";
    SchemaActivate = 0x70, "SCHEMA_ACTIVATE", "Client: `SchemaSelect`; answered by SCHEMA_RESPONSE.";
    SchemaRetire = 0x71, "SCHEMA_RETIRE", "Client: `SchemaSelect`; answered by SCHEMA_RESPONSE.";
    SchemaDelete = 0x72, "SCHEMA_DELETE", "Client: `QueueName`; answered by DONE.";
    SchemaClients = 0x73, "SCHEMA_CLIENTS", "Client: `QueueName`; answered by SCHEMA_CLIENTS_RESPONSE.";
    SchemaClientsResponse = 0x74, "SCHEMA_CLIENTS_RESPONSE", "Broker: `SchemaClients`.";
    ClusterStatus = 0x78, "CLUSTER_STATUS", "Client: `ClusterStatus`; answered by CLUSTER_STATUS_RESPONSE, on every node.";
    ClusterStatusResponse = 0x79, "CLUSTER_STATUS_RESPONSE", "Broker: `ClusterStatusResponse`.";
    ClusterChange = 0x7a, "CLUSTER_CHANGE", "Client: `ClusterChange`; answered by DONE, by the leader.";
}

#[cfg(test)]
mod tests {
    use super::Opcode;

    #[test]
    fn numbers_and_names_are_unique_and_round_trip() {
        for (i, opcode) in Opcode::ALL.iter().enumerate() {
            assert_eq!(Opcode::from_u8(*opcode as u8), Some(*opcode));
            for other in &Opcode::ALL[i + 1..] {
                assert_ne!(opcode.name(), other.name());
                assert!((*opcode as u8) < *other as u8);
            }
        }
        assert_eq!(Opcode::from_u8(0), None);
        assert_eq!(Opcode::from_u8(0xff), None);
    }
}
