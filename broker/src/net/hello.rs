//! HELLO: the first frame of a connection, judged before anything else is read.

use qwerq_core::SessionId;
use qwerq_proto::{ErrorCode, MAX_FRAME_BYTES, PROTOCOL_VERSION, wire};

use crate::cluster::{ANY_NODE, Role};
use crate::config::{HEARTBEAT, PUBLISH_WINDOW_BYTES, PUBLISH_WINDOW_REQUESTS};

use super::Shared;

/// The feature of those who want SCHEMA_CHANGED.
pub(super) const SCHEMA_EVENTS: &str = "schema-events";

/// The feature of those who want to know whether another node may take over.
const CLUSTER: &str = "cluster";

/// Judges a HELLO.
///
/// # Errors
/// The ERROR after which the connection closes.
pub(super) fn judge(shared: &Shared, session: SessionId, hello: &wire::Hello) -> Result<wire::HelloAck, wire::Error> {
    if let Some(token) = &shared.token
        && !token.matches(&hello.token)
    {
        let text = if hello.token.is_empty() {
            "the broker wants a token: set --auth-token or QWERQ_AUTH_TOKEN"
        } else {
            "the token is not the broker's; check --auth-token or QWERQ_AUTH_TOKEN"
        };
        return Err(ErrorCode::Unauthorized.with(text));
    }
    if hello.min_protocol > PROTOCOL_VERSION || hello.max_protocol < PROTOCOL_VERSION {
        return Err(ErrorCode::VersionUnsupported
            .with(format!(
                "the client speaks protocol {} to {}, the broker {PROTOCOL_VERSION}; update the older one",
                hello.min_protocol, hello.max_protocol
            ))
            .detail("broker_protocol", PROTOCOL_VERSION));
    }
    if let Some(cluster) = &shared.cluster
        && !is_for_any_node(hello)
    {
        let status = cluster.status();
        if status.role != Role::Leader {
            return Err(status.not_leader());
        }
    }
    Ok(wire::HelloAck {
        protocol: PROTOCOL_VERSION,
        features: granted(shared, &hello.features),
        max_frame_bytes: MAX_FRAME_BYTES,
        max_message_bytes: shared.config.queue_defaults.max_message_bytes,
        publish_window_requests: PUBLISH_WINDOW_REQUESTS,
        publish_window_bytes: PUBLISH_WINDOW_BYTES,
        heartbeat_ms: u32::try_from(HEARTBEAT.as_millis()).expect("ten seconds"),
        session: session.0.to_string(),
        broker_version: env!("CARGO_PKG_VERSION").to_owned(),
    })
}

/// Whether a client wants to speak of the cluster only, and so to any of its nodes.
fn is_for_any_node(hello: &wire::Hello) -> bool {
    hello.features.iter().any(|feature| feature == ANY_NODE)
}

/// Whether the client of this HELLO_ACK speaks of the cluster only.
pub(super) fn is_any_node(ack: &wire::HelloAck) -> bool {
    ack.features.iter().any(|feature| feature == ANY_NODE)
}

/// Those of the features that a client asks for which this broker has.
fn granted(shared: &Shared, asked: &[String]) -> Vec<String> {
    let has = [(SCHEMA_EVENTS, true), (CLUSTER, shared.cluster.is_some()), (ANY_NODE, shared.cluster.is_some())];
    let granted = has.into_iter().filter(|(feature, has)| *has && asked.iter().any(|asked| asked == feature));
    granted.map(|(feature, _)| feature.to_owned()).collect()
}
