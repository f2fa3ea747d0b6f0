//! Changes of the cluster: taking nodes up, letting them go, handing over. One at a time, by the leader.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use openraft::ChangeMembers;
use tokio::sync::{mpsc, oneshot};

use super::committed::Queue;
use super::link::Standing;
use super::log::{Log, chain};
use super::network::{Identity, probe, tell_to_elect};
use super::node::LOOK_FOR_INVITED;
use super::raft::{Address, ELECTION_MAX, HEARTBEAT, Raft};
use super::status::{Change, ClusterError, ClusterStatus};
use crate::files::DiskFiles;

/// How long a node may take to copy what there is.
const CATCH_UP: Duration = Duration::from_secs(30 * 60);

/// How many entries a node may be behind and still count as caught up.
const CLOSE: u64 = 64;

/// How long the other steps may take.
const STEP: Duration = Duration::from_secs(10);

/// How often a step is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// What changes take.
pub(crate) struct Changer {
    pub(crate) identity: Arc<Identity>,
    pub(crate) raft: openraft::Raft<Raft>,
    pub(crate) log: Log<DiskFiles>,
    pub(crate) standing: Arc<Standing>,
    pub(crate) queue: Arc<Queue>,
    pub(crate) status: Box<dyn Fn() -> ClusterStatus + Send + Sync>,
}

type Requests = mpsc::UnboundedReceiver<(Change, oneshot::Sender<Result<(), ClusterError>>)>;

/// Answers operators, and takes up those that the bootstrap has named.
pub(crate) async fn change_members(changer: &Changer, requests: &mut Requests) {
    let mut said = BTreeSet::new();
    loop {
        tokio::select! {
            request = requests.recv() => {
                let Some((change, answer)) = request else { return std::future::pending().await };
                let outcome = changer.change(change).await;
                // Whoever asked may have gone; it is done all the same.
                let _ = answer.send(outcome);
            }
            () = tokio::time::sleep(LOOK_FOR_INVITED) => changer.take_up_invited(&mut said).await,
        }
    }
}

fn refused(text: impl Into<String>) -> ClusterError {
    ClusterError::Refused(text.into())
}

impl Changer {
    async fn change(&self, change: Change) -> Result<(), ClusterError> {
        let status = self.leading()?;
        match change {
            Change::Add { id, raft_address } => self.add(&status, id, &raft_address).await,
            Change::Remove { id } => self.remove(&status, id).await,
            Change::Transfer { id } => self.transfer(&status, id).await,
        }
    }

    /// The status of the leader; an error on any other node.
    fn leading(&self) -> Result<ClusterStatus, ClusterError> {
        let status = (self.status)();
        match status.leader == Some(status.node_id) {
            true => Ok(status),
            false => Err(ClusterError::NotLeader(Box::new(status.not_leader()))),
        }
    }

    async fn add(&self, status: &ClusterStatus, id: u64, raft_address: &str) -> Result<(), ClusterError> {
        let known = status.members.iter().find(|member| member.id == id);
        if let Some(member) = known
            && member.raft_address != raft_address
        {
            let text = format!("node {id} is a member already, at {}; remove it first if this is another one", member.raft_address);
            return Err(refused(text));
        }
        if let Some(member) = known.filter(|member| member.voter) {
            return match id == status.node_id || member.answers() {
                true => Ok(()),
                false => Err(refused(format!(
                    "node {id} is a member already and does not answer; start it with the directory that it has, or remove it and add \
                     another one under a new number"
                ))),
            };
        }
        let cluster = Some(status.cluster_id.clone());
        let welcome = probe(&self.identity, cluster, id, raft_address).await.map_err(|error| {
            refused(format!(
                "node {id} does not answer at {raft_address}: {error}; is that its --cluster-bind, and is it running with \
                 --cluster-node-id {id}?"
            ))
        })?;
        let address = Address { raft: raft_address.to_owned(), ..welcome.address };
        self.raft.add_learner(id, address, false).await.map_err(|error| self.failed("it was not taken up", &error))?;
        tracing::info!(node = id, address = raft_address, "a node joins and copies what there is");
        self.catch_up(id).await?;
        let voters = ChangeMembers::AddVoterIds([id].into());
        self.raft.change_membership(voters, true).await.map_err(|error| self.failed("it is a learner still", &error))?;
        tracing::info!(node = id, "a node has caught up and votes now");
        Ok(())
    }

    /// Waits until a node has what there is. One that got a snapshot starts anew from it, so it must have answered after that, too.
    async fn catch_up(&self, id: u64) -> Result<(), ClusterError> {
        let close = |status: &ClusterStatus| {
            let member = status.members.iter().find(|member| member.id == id);
            member.filter(|member| member.lag.is_some_and(|lag| lag <= CLOSE)).and_then(|member| member.last_contact_ms)
        };
        let otherwise = || format!("node {id} is a learner and has not caught up yet; add it again to go on");
        self.until(CATCH_UP, otherwise(), |status| close(status).is_some()).await?;
        let since = Instant::now();
        let after = |contact_ms: u64| Duration::from_millis(contact_ms) + HEARTBEAT < since.elapsed();
        self.until(CATCH_UP, otherwise(), |status| close(status).is_some_and(after)).await
    }

    async fn remove(&self, status: &ClusterStatus, id: u64) -> Result<(), ClusterError> {
        let Some(member) = status.members.iter().find(|member| member.id == id) else {
            return Err(refused(format!("node {id} is no member")));
        };
        if id == status.node_id {
            return Err(refused(format!("node {id} leads; hand over to another one first: `qwer-q cluster transfer ID`")));
        }
        let change = match member.voter {
            true => ChangeMembers::RemoveVoters([id].into()),
            false => ChangeMembers::RemoveNodes([id].into()),
        };
        self.raft.change_membership(change, false).await.map_err(|error| self.failed("it may be a member still", &error))?;
        self.forget_invited(id).await;
        tracing::info!(node = id, "a node was removed");
        Ok(())
    }

    /// Stops serving, lets the promises that followers have made run out, and has the other node ask for votes.
    async fn transfer(&self, status: &ClusterStatus, id: u64) -> Result<(), ClusterError> {
        if id == status.node_id {
            return Ok(());
        }
        let Some(member) = status.members.iter().find(|member| member.id == id) else {
            return Err(refused(format!("node {id} is no member")));
        };
        if !member.voter {
            return Err(refused(format!("node {id} does not vote yet, so it cannot lead")));
        }
        if !member.answers() {
            return Err(refused(format!("node {id} does not answer, so it cannot lead; is it running?")));
        }
        if member.lag.is_none_or(|lag| lag > CLOSE) {
            return Err(refused(format!("node {id} is too far behind to lead; try again when it has caught up")));
        }
        // It may have died a moment ago. Nobody is to wait for a node that cannot take over.
        let cluster = Some(status.cluster_id.clone());
        probe(&self.identity, cluster, id, &member.raft_address)
            .await
            .map_err(|error| refused(format!("node {id} does not answer at {}, so it cannot lead: {error}", member.raft_address)))?;
        tracing::info!(node = id, "this node hands over");
        self.standing.yielding.store(true, Ordering::Release);
        self.queue.nudge();
        let outcome = self.hand_over(id, &member.raft_address).await;
        self.standing.yielding.store(false, Ordering::Release);
        self.raft.runtime_config().heartbeat(true);
        self.queue.nudge();
        outcome
    }

    async fn hand_over(&self, id: u64, address: &str) -> Result<(), ClusterError> {
        let still = || "this node did not hand over and leads on; try again".to_owned();
        self.until(STEP, still(), |_| self.standing.serving.load(Ordering::Acquire) == 0).await?;
        // Everything that was proposed must be there.
        self.until(STEP, still(), |_| {
            let metrics = self.raft.metrics();
            let metrics = metrics.borrow();
            let matched = metrics.replication.as_ref().and_then(|nodes| nodes.get(&id)).copied().flatten();
            matched.map(|matched| matched.index) >= metrics.last_log_index
        })
        .await?;
        self.raft.runtime_config().heartbeat(false);
        tokio::time::sleep(ELECTION_MAX + HEARTBEAT).await;
        let cluster = self.log.points().cluster_id;
        tell_to_elect(&self.identity, cluster, id, address)
            .await
            .map_err(|error| ClusterError::Unfinished(format!("node {id} does not answer at {address}: {error}; this node leads on")))?;
        self.until(STEP, format!("node {id} was told to lead and was not elected; see `qwer-q cluster status`"), |status| {
            status.leader == Some(id)
        })
        .await
    }

    /// Waits until `reached` says so.
    async fn until(&self, patience: Duration, otherwise: String, reached: impl Fn(&ClusterStatus) -> bool) -> Result<(), ClusterError> {
        let until = Instant::now() + patience;
        loop {
            if reached(&(self.status)()) {
                return Ok(());
            }
            if Instant::now() >= until || self.standing.led.load(Ordering::Acquire) == 0 && !self.standing.yielding.load(Ordering::Acquire)
            {
                return Err(ClusterError::Unfinished(otherwise));
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    }

    fn failed(&self, state: &str, error: &dyn std::error::Error) -> ClusterError {
        match self.leading() {
            Err(not_leader) => not_leader,
            Ok(_) => ClusterError::Unfinished(format!("{}; {state}", chain(error))),
        }
    }

    async fn take_up_invited(&self, said: &mut BTreeSet<u64>) {
        if let Ok(status) = self.leading() {
            self.finish_change().await;
            self.correct_own_address(&status).await;
        }
        for (id, address) in self.log.points().invited {
            let Ok(status) = self.leading() else { return };
            match self.add(&status, id, &address).await {
                Ok(()) => self.forget_invited(id).await,
                Err(error) if said.insert(id) => {
                    tracing::info!(node = id, address, "waiting for a node of --cluster-peers: {error}");
                }
                Err(_) => {}
            }
        }
    }

    /// Finishes a change of members that an earlier leader has left halfway, where both majorities count.
    async fn finish_change(&self) {
        let membership = Arc::clone(&self.raft.metrics().borrow().membership_config);
        let [_, .., wanted] = &membership.membership().get_joint_config()[..] else { return };
        tracing::info!(voters = ?wanted, "finishing a change of members that was left halfway");
        if let Err(error) = self.raft.change_membership(wanted.clone(), true).await {
            tracing::warn!(error = %chain(&error), "the change of members is not finished yet");
        }
    }

    async fn forget_invited(&self, id: u64) {
        if self.log.points().invited.iter().any(|(invited, _)| *invited == id) {
            let forgotten = self.log.change_points(move |points| points.invited.retain(|(invited, _)| *invited != id)).await;
            if let Err(error) = forgotten {
                tracing::warn!(node = id, error = %chain(&error), "the node is invited still");
            }
        }
    }

    /// Tells the others where clients reach this node, when that has changed.
    async fn correct_own_address(&self, status: &ClusterStatus) {
        let own = &self.identity.address;
        let Some(member) = status.members.iter().find(|member| member.id == status.node_id) else { return };
        if member.client_address == own.client && member.http_address == own.http {
            return;
        }
        // Where other nodes reach it is what they were told when it was added.
        self.set_address(status.node_id, Address { raft: member.raft_address.clone(), ..own.clone() }).await;
    }

    async fn set_address(&self, id: u64, address: Address) {
        let nodes = BTreeMap::from([(id, address)]);
        if let Err(error) = self.raft.change_membership(ChangeMembers::SetNodes(nodes), true).await {
            tracing::warn!(node = id, error = %chain(&error), "the node's new address is not known to the others");
        }
    }
}
