//! `qwer-q cluster status | add | remove | transfer`: the nodes of a cluster, and who leads.

use std::time::Duration;

use clap::{Args, Subcommand};
use qwerq::{Client, ClusterMember, ClusterStatus, Reconnect};
use qwerq_proto::ErrorCode;
use serde_json::{Value, json};

use crate::broker::{self, BrokerArgs};
use crate::confirmation::ConfirmationArgs;
use crate::failure::Failure;
use crate::output::Output;
use crate::table::{Table, Way};

/// How long the leader may take to answer before the node's own view is shown.
const LEADER_TIMEOUT: Duration = Duration::from_secs(2);

/// After this it is said what takes so long.
const SOON: Duration = Duration::from_secs(1);

#[derive(Debug, Args)]
pub(crate) struct ClusterArgs {
    #[command(subcommand)]
    command: ClusterCommand,
}

#[derive(Debug, Subcommand)]
enum ClusterCommand {
    /// Show the nodes, who leads, and how far behind the others are; ask any node
    #[command(after_help = "Exit code 1 also says that no node leads.\n\nExamples:\n  qwer-q cluster status\n  \
        qwer-q cluster status -b node2:9876 --local\n  qwer-q cluster status --json | jq .leader")]
    Status(StatusArgs),
    /// Take up a node: it copies what there is, then it votes
    #[command(
        after_help = "The node must be running, started with --cluster-node-id ID and without --cluster-bootstrap. A command that is \
        interrupted can be given again.\n\nExamples:\n  qwer-q cluster add 4=node4:9878\n  \
        qwer-q cluster add 4=node4:9878 -b node1:9876,node2:9876"
    )]
    Add(AddArgs),
    /// Let a node go, dead or alive
    #[command(after_help = "Examples:\n  qwer-q cluster remove 3\n  qwer-q cluster remove 3 --yes")]
    Remove(RemoveArgs),
    /// Have another node lead, such as before maintenance
    #[command(after_help = "Examples:\n  qwer-q cluster transfer 2")]
    Transfer(TransferArgs),
}

#[derive(Debug, Args)]
struct StatusArgs {
    /// One JSON object
    #[arg(long)]
    json: bool,
    /// Show what this very node knows; else the leader is asked, if it answers
    #[arg(long)]
    local: bool,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
struct AddArgs {
    /// The node's number, and where it listens for other nodes
    #[arg(value_name = "ID=HOST:PORT", value_parser = node)]
    node: (u64, String),
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
struct RemoveArgs {
    /// The node's number
    #[arg(value_name = "ID", value_parser = clap::value_parser!(u64).range(1..))]
    id: u64,
    #[command(flatten)]
    confirmation: ConfirmationArgs,
    #[command(flatten)]
    broker: BrokerArgs,
}

#[derive(Debug, Args)]
struct TransferArgs {
    /// The number of the node that is to lead
    #[arg(value_name = "ID", value_parser = clap::value_parser!(u64).range(1..))]
    id: u64,
    #[command(flatten)]
    broker: BrokerArgs,
}

pub(crate) fn run(args: ClusterArgs) -> Result<(), Failure> {
    broker::block_on(async {
        match args.command {
            ClusterCommand::Status(args) => status(args).await,
            ClusterCommand::Add(args) => add(args).await,
            ClusterCommand::Remove(args) => remove(args).await,
            ClusterCommand::Transfer(args) => transfer(args).await,
        }
    })
}

async fn status(args: StatusArgs) -> Result<(), Failure> {
    let client = args.broker.builder().any_node().connect().await?;
    let mut status = client.cluster_status().await?;
    if !args.local
        && let Some(seen) = seen_by_the_leader(&args.broker, &status).await
    {
        status = seen;
    }
    let mut output = Output::stdout();
    if args.json {
        output.json(&to_json(&status))?;
    } else {
        output.line(headline(&status))?;
        table(&status).print(&mut output)?;
    }
    output.flush()?;
    if status.healing {
        eprintln!("node {} does not vote until it has copied everything from the others", status.node_id);
    }
    match status.leader {
        Some(_) => Ok(()),
        None if status.cluster_id.is_empty() => Err(Failure::failed(format!("node {} is in no cluster yet", status.node_id))
            .next_step(format!("take it up at the leader: `qwer-q cluster add {}=HOST:PORT -b LEADER`", status.node_id))),
        None => Err(Failure::failed(format!("no node leads, as far as node {} knows", status.node_id)).next_step(
            "a majority of the voting nodes must run and reach one another, and their logs say what keeps them; a node that was removed \
             hears nobody",
        )),
    }
}

/// What the leader says, which knows more than the others; nothing when the answer is the leader's already, or it does not answer.
async fn seen_by_the_leader(broker: &BrokerArgs, status: &ClusterStatus) -> Option<ClusterStatus> {
    let leader = status.leader.filter(|leader| *leader != status.node_id)?;
    let member = status.members.iter().find(|member| member.id == leader && !member.client_address.is_empty())?;
    let asked = async {
        let client = broker.builder_for(&member.client_address).any_node().connect().await?;
        client.cluster_status().await
    };
    // The view of the node that was asked is good enough otherwise.
    let seen = tokio::time::timeout(LEADER_TIMEOUT, asked).await.ok()?.ok()?;
    (seen.cluster_id == status.cluster_id && seen.term >= status.term).then_some(seen)
}

async fn add(args: AddArgs) -> Result<(), Failure> {
    let (id, address) = &args.node;
    let client = leader(&args.broker).await?;
    let mut added = std::pin::pin!(client.add_node(*id, address));
    let outcome = match tokio::time::timeout(SOON, &mut added).await {
        Ok(outcome) => outcome,
        Err(_) => {
            eprintln!("node {id} copies what there is; this can take a while");
            added.await
        }
    };
    outcome.map_err(refused)?;
    say(format!("node {id} at {address} is a voting member"))
}

async fn remove(args: RemoveArgs) -> Result<(), Failure> {
    args.confirmation.ask(&format!("remove node {} from the cluster", args.id))?;
    leader(&args.broker).await?.remove_node(args.id).await.map_err(refused)?;
    say(format!("node {} is no member any more; stop it if it runs", args.id))
}

async fn transfer(args: TransferArgs) -> Result<(), Failure> {
    // Asked once: a leader that tries in vain stops serving meanwhile.
    let once = Reconnect { attempts: Some(0), ..Reconnect::default() };
    let client = args.broker.builder().reconnect(once).connect().await?;
    match client.transfer_leadership(args.id).await {
        Ok(()) => {}
        // Whoever hands over closes its connections, and its answer may be lost with them.
        Err(qwerq::Error::Disconnected { .. }) => {
            let leads = leader(&args.broker).await?.cluster_status().await?.leader;
            if leads != Some(args.id) {
                let leads = leads.map_or_else(|| "no node leads".to_owned(), |leads| format!("node {leads} leads"));
                return Err(Failure::failed(format!("node {} was told to lead and does not: {leads}", args.id))
                    .next_step("its log says why; `qwer-q cluster status` shows the nodes as they are"));
            }
        }
        Err(error) => return Err(refused(error)),
    }
    say(format!("node {} leads", args.id))
}

/// A connection to the leader, which follows it when it changes.
async fn leader(broker: &BrokerArgs) -> Result<Client, Failure> {
    let patience = Reconnect { attempts: Some(20), max: Duration::from_secs(1), ..Reconnect::default() };
    Ok(broker.builder().reconnect(patience).connect().await?)
}

/// What the leader says about a change that makes no sense as things are.
fn refused(error: qwerq::Error) -> Failure {
    let unexplained =
        error.refusal().is_some_and(|refusal| refusal.known() == Some(ErrorCode::InvalidArgument) && !refusal.message.contains("`qwer-q "));
    let failure = Failure::from(error);
    if unexplained { failure.next_step("`qwer-q cluster status` shows the nodes as they are") } else { failure }
}

fn say(text: String) -> Result<(), Failure> {
    let mut output = Output::stdout();
    output.line(text)?;
    output.flush()
}

/// A value parser for `ID=HOST:PORT`.
fn node(text: &str) -> Result<(u64, String), String> {
    const FORM: &str = "say ID=HOST:PORT, such as 4=node4:9878";
    let (id, address) = text.split_once('=').ok_or(FORM)?;
    let id = id.parse().ok().filter(|id| *id > 0).ok_or_else(|| format!("`{id}` is no node id; {FORM}"))?;
    let port = address.rsplit_once(':').filter(|(host, _)| !host.is_empty()).and_then(|(_, port)| port.parse::<u16>().ok());
    match port {
        Some(1..) => Ok((id, address.to_owned())),
        _ => Err(format!("`{address}` is no HOST:PORT; {FORM}")),
    }
}

fn headline(status: &ClusterStatus) -> String {
    let name = if status.cluster_id.is_empty() { "no cluster yet".to_owned() } else { format!("cluster {}", status.cluster_id) };
    let leader = status.leader.map_or_else(|| "no leader".to_owned(), |leader| format!("node {leader} leads"));
    format!("{name}, term {}, {leader}; seen by node {}", status.term, status.node_id)
}

fn table(status: &ClusterStatus) -> Table {
    let ways = [("NODES", Way::Out), ("CLIENTS", Way::KeepStart(20)), ("LAST CONTACT", Way::Out)];
    let mut table = Table::new(&[">NODE", "ROLE", "VOTES", "CLIENTS", "NODES", ">LAG", ">LAST CONTACT"]).giving_way(&ways);
    for member in &status.members {
        table.row(vec![
            member.id.to_string(),
            role(status, member).to_owned(),
            if member.voter { "yes" } else { "no" }.to_owned(),
            or_dash(&member.client_address),
            or_dash(&member.raft_address),
            member.lag.map_or_else(|| "-".to_owned(), |lag| lag.to_string()),
            member.last_contact_ms.map_or_else(|| "-".to_owned(), last_contact),
        ]);
    }
    table
}

/// How long ago a node answered, and whether that is longer than a node takes that runs.
fn last_contact(ms: u64) -> String {
    const SILENT_MS: u64 = 1_000;
    if ms < SILENT_MS { format!("{ms} ms") } else { format!("{ms} ms: no answer") }
}

/// What a member does: what it says of itself, or what the membership says.
fn role<'a>(status: &ClusterStatus, member: &'a ClusterMember) -> &'a str {
    match &*member.role {
        "" if status.leader == Some(member.id) => "leader",
        "" if !member.voter => "learner",
        "" => "-",
        role => role,
    }
}

fn or_dash(text: &str) -> String {
    if text.is_empty() { "-" } else { text }.to_owned()
}

fn to_json(status: &ClusterStatus) -> Value {
    let members: Vec<Value> = status.members.iter().map(|member| member_json(status, member)).collect();
    json!({
        "cluster_id": status.cluster_id,
        "node_id": status.node_id,
        "role": status.role,
        "term": status.term,
        "leader": status.leader,
        "last_log_index": status.last_log_index,
        "committed_index": status.committed_index,
        "applied_index": status.applied_index,
        "snapshot_index": status.snapshot_index,
        "purged_index": status.purged_index,
        "healing": status.healing,
        "members": members,
    })
}

fn member_json(status: &ClusterStatus, member: &ClusterMember) -> Value {
    let known = |text: &str| (!text.is_empty() && text != "-").then(|| text.to_owned());
    json!({
        "id": member.id,
        "raft_address": member.raft_address,
        "client_address": known(&member.client_address),
        "http_address": known(&member.http_address),
        "voter": member.voter,
        "role": known(role(status, member)),
        "matched_index": member.matched_index,
        "lag": member.lag,
        "last_contact_ms": member.last_contact_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_an_id_and_an_address() {
        assert_eq!(node("4=node4:9878"), Ok((4, "node4:9878".to_owned())));
        for wrong in ["", "4", "4=", "4=node4", "4=:9878", "4=node4:0", "0=node4:9878", "x=node4:9878"] {
            assert!(node(wrong).unwrap_err().contains("4=node4:9878"), "{wrong}");
        }
    }
}
