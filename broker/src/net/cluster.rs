//! Questions about the cluster, and its changes, as they come by the protocol. What they mean is `crate::cluster`'s.

use std::sync::Arc;

use qwerq_proto::{ErrorCode, Opcode, wire};

use crate::cluster::{self, Cluster};
use crate::shard::Asker;

use super::Shared;
use super::requests::reply;

/// Answers CLUSTER_STATUS.
pub(super) fn status(shared: &Shared, asker: Asker) {
    match &shared.cluster {
        Some(cluster) => reply(shared, asker, Opcode::ClusterStatusResponse, &cluster.status().to_wire()),
        None => reply(shared, asker, Opcode::Error, &cluster::runs_alone()),
    }
}

/// Answers CLUSTER_CHANGE when it is done; the connection goes on meanwhile.
///
/// # Errors
/// `correlation-required`: replies behind it would wait.
pub(super) fn change(shared: &Arc<Shared>, asker: Asker, change: wire::ClusterChange) -> Result<(), wire::Error> {
    if asker.request_id.is_none() {
        return Err(ErrorCode::CorrelationRequired.with("CLUSTER_CHANGE must carry a request id; set the flag CORRELATED"));
    }
    let shared = Arc::clone(shared);
    tokio::spawn(async move {
        match carry_out(shared.cluster.as_ref(), change).await {
            Ok(()) => reply(&shared, asker, Opcode::Done, &wire::Done {}),
            Err(error) => reply(&shared, asker, Opcode::Error, &error),
        }
    });
    Ok(())
}

async fn carry_out(cluster: Option<&Cluster>, change: wire::ClusterChange) -> Result<(), wire::Error> {
    let cluster = cluster.ok_or_else(cluster::runs_alone)?;
    cluster.apply(cluster::change(change)?).await
}
