//! The cluster: its nodes, who leads, and how far behind the others are. Any node shows it; the leader knows most.

use askama::Template;
use axum::http::StatusCode;
use axum::response::Response;

use crate::cluster::{ClusterStatus, Member, runs_alone};
use crate::http::api::cluster::role_of;

use super::frame::{ErrorPage, Frame, Section, page};
use super::visit::Visit;
use crate::http::quantity::count;

struct MemberView {
    id: u64,
    role: &'static str,
    leads: bool,
    votes: &'static str,
    clients: String,
    /// Where its dashboard is; empty: not known, or this very page.
    dashboard: String,
    nodes: String,
    lag: String,
    last_contact: String,
}

#[derive(Template)]
#[template(path = "cluster.html")]
struct ClusterPage {
    frame: Frame,
    summary: String,
    /// Something that an operator should know.
    warning: &'static str,
    /// Where the leader's dashboard is, when this node does not lead.
    leader_dashboard: String,
    leader: String,
    facts: Vec<(&'static str, String)>,
    members: Vec<MemberView>,
}

/// The cluster
#[utoipa::path(
    get, path = "/cluster", tag = "dashboard",
    responses(
        (status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 404, description = "The broker runs alone", body = String, content_type = "text/html")
    )
)]
pub(super) async fn cluster(visit: Visit) -> Result<Response, ErrorPage> {
    let Some(status) = visit.broker().cluster.as_ref().map(|cluster| cluster.status()) else {
        return Ok(visit.refused(runs_alone()).with_status(StatusCode::NOT_FOUND));
    };
    Ok(page(&ClusterPage {
        frame: visit.frame("Cluster", Section::Cluster),
        summary: match status.leader {
            Some(leader) => format!("node {leader} leads, term {}", count(status.term)),
            None => format!("nobody leads, term {}", count(status.term)),
        },
        warning: warning(&status),
        leader_dashboard: leader_dashboard(&status),
        leader: status.leader.map_or_else(String::new, |leader| leader.to_string()),
        facts: facts(&status),
        members: status.members.iter().map(|member| MemberView::new(member, &status)).collect(),
    }))
}

fn warning(status: &ClusterStatus) -> &'static str {
    if status.cluster_id.is_empty() {
        "No cluster has taken this node up yet. Add it from a node that is a member: qwer-q cluster add."
    } else if status.healing {
        "This node has lost files. It does not vote until it has copied everything from the others."
    } else if status.leader.is_none() {
        "Nobody leads, so nothing is served. A majority of the voting nodes must run and reach one another."
    } else {
        ""
    }
}

/// `http://` before the address that the leader says of itself; nothing on the leader's own page.
fn leader_dashboard(status: &ClusterStatus) -> String {
    let other = status.leading_member().filter(|member| member.id != status.node_id);
    other.map_or_else(String::new, |member| link(&member.http_address))
}

fn link(http_address: &str) -> String {
    if http_address.is_empty() { String::new() } else { format!("http://{http_address}/cluster") }
}

fn facts(status: &ClusterStatus) -> Vec<(&'static str, String)> {
    vec![
        ("Cluster", if status.cluster_id.is_empty() { "none yet".to_owned() } else { status.cluster_id.clone() }),
        ("This node", format!("{}, {}", status.node_id, status.role.name())),
        ("Last entry of the log", count(status.last_log_index)),
        ("Committed", count(status.committed_index)),
        ("Applied", count(status.applied_index)),
        ("In the store", count(status.snapshot_index)),
        ("Dropped from the log", count(status.purged_index)),
    ]
}

impl MemberView {
    fn new(member: &Member, status: &ClusterStatus) -> MemberView {
        let or_dash = |text: &str| if text.is_empty() { "–".to_owned() } else { text.to_owned() };
        MemberView {
            id: member.id,
            role: role_of(member, status.leader).map_or("–", |role| role.name()),
            leads: status.leader == Some(member.id),
            votes: if member.voter { "yes" } else { "no" },
            clients: or_dash(&member.client_address),
            dashboard: if member.id == status.node_id { String::new() } else { link(&member.http_address) },
            nodes: or_dash(&member.raft_address),
            lag: member.lag.map_or_else(|| "–".to_owned(), count),
            last_contact: match member.last_contact_ms {
                Some(ms) if !member.answers() => format!("{} ms: no answer", count(ms)),
                Some(ms) => format!("{} ms ago", count(ms)),
                None => "–".to_owned(),
            },
        }
    }
}
