//! HELLO: the first frame of a connection, judged before anything else is read.

use qwerq_core::SessionId;
use qwerq_proto::{ErrorCode, MAX_FRAME_BYTES, PROTOCOL_VERSION, wire};

use crate::config::{HEARTBEAT, PUBLISH_WINDOW_BYTES, PUBLISH_WINDOW_REQUESTS};

use super::Shared;
use crate::cluster::{ANY_NODE, Role};

/// The feature of brokers that are nodes of a cluster.
const CLUSTER: &str = "cluster";

/// The feature of those who want SCHEMA_CHANGED.
pub(super) const SCHEMA_EVENTS: &str = "schema-events";

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
        features: features(shared, hello),
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
pub(super) fn is_for_any_node(hello: &wire::Hello) -> bool {
    hello.features.iter().any(|feature| feature == ANY_NODE)
}

/// The features that both sides have.
fn features(shared: &Shared, hello: &wire::Hello) -> Vec<String> {
    let mut features: Vec<String> = hello.features.iter().filter(|feature| *feature == SCHEMA_EVENTS).take(1).cloned().collect();
    if shared.cluster.is_some() {
        features.push(CLUSTER.to_owned());
        features.extend(is_for_any_node(hello).then(|| ANY_NODE.to_owned()));
    }
    features
}
