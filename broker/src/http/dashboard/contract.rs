//! The contract of a queue: its versions, the text of one, who uses which, and a form that checks or registers another.

use askama::Template;
use axum::response::Response;
use qwerq_proto::{Opcode, wire};
use serde::Deserialize;
use utoipa::IntoParams;

use crate::http::quantity::time_short;

use super::asked::{Asked, QueueName};
use super::contracts::GEN_COMMANDS;
use super::frame::{ErrorPage, Frame, Section, page};
use super::queue_head::{QueueHead, Tab};
use super::visit::Visit;

/// Hexadecimal digits of a fingerprint that are shown.
const FINGERPRINT_DIGITS: usize = 12;

/// What of the contract is shown.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct Shown {
    /// The version whose text is shown; the active one unless given.
    version: String,
}

struct VersionView {
    number: u32,
    state: &'static str,
    state_class: &'static str,
    types: String,
    registered_at: String,
    registered_by: String,
    fingerprint: String,
    is_shown: bool,
    /// The one before the one that is shown.
    is_older: bool,
    can_activate: bool,
    can_retire: bool,
}

struct FileView {
    path: String,
    text: String,
    /// An import of everybody's, which hardly anybody wants to read.
    is_folded: bool,
}

struct ClientView {
    name: String,
    role: String,
    group: String,
    version: String,
    seen: String,
}

#[derive(Template)]
#[template(path = "contract.html")]
struct ContractPage {
    frame: Frame,
    head: QueueHead,
    command: String,
    compatibility: String,
    versions: Vec<VersionView>,
    shown: u32,
    files: Vec<FileView>,
    gen_commands: [&'static str; 3],
    clients: Vec<ClientView>,
    message_type: String,
    reply_type: String,
    path: String,
}

/// The contract of a queue
#[utoipa::path(
    get, path = "/queues/{queue}/contract", tag = "dashboard", params(("queue" = String, Path, description = "Name of the queue"), Shown),
    responses(
        (status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 404, description = "A page that says that there is no such queue or version", body = String, content_type = "text/html"),
    )
)]
pub(super) async fn contract(mut visit: Visit, QueueName(name): QueueName, Asked(shown): Asked<Shown>) -> Result<Response, ErrorPage> {
    let queue = visit.queue(&name).await?;
    let head = QueueHead::of(&mut visit, &queue, Tab::Contract).await?;
    let list = wire::SchemaList { all_versions: true, queue: name.clone() };
    let list: wire::SchemaListResponse = visit.ask(Opcode::SchemaList, &list).await?;
    let got: Option<wire::SchemaResponse> = match list.versions.is_empty() {
        true => None,
        false => {
            let get = wire::SchemaGet { queue: name.clone(), version: shown.version.parse().unwrap_or(0), ..wire::SchemaGet::default() };
            Some(visit.ask(Opcode::SchemaGet, &get).await?)
        }
    };
    let clients: wire::SchemaClients = visit.ask(Opcode::SchemaClients, &wire::QueueName { name: name.clone() }).await?;
    let (current, sources) = got.map(|got| (got.version.unwrap_or_default(), got.sources)).unwrap_or_default();
    let older = list.versions.iter().map(|version| version.version).filter(|version| *version < current.version).max();
    let view = |version: wire::SchemaVersion| version_view(version, current.version, older);
    let mut versions: Vec<VersionView> = list.versions.into_iter().map(view).collect();
    versions.sort_by_key(|version| std::cmp::Reverse(version.number));
    let files: Vec<FileView> = sources.into_iter().map(file).collect();
    Ok(page(&ContractPage {
        frame: visit.frame(format!("Contract of {name}"), if head.is_stream { Section::Streams } else { Section::Queues }),
        command: format!("qwer-q schema register -q {name} -p message.proto -m my.v1.Message"),
        compatibility: queue.options.and_then(|options| options.compatibility).unwrap_or_default(),
        versions,
        shown: current.version,
        path: files.iter().find(|file| !file.is_folded).map_or_else(|| "message.proto".to_owned(), |file| file.path.clone()),
        files,
        gen_commands: GEN_COMMANDS,
        clients: clients.clients.into_iter().map(client).collect(),
        message_type: current.message_type,
        reply_type: current.reply_type,
        head,
    }))
}

fn version_view(version: wire::SchemaVersion, shown: u32, older: Option<u32>) -> VersionView {
    let (state, state_class) = match (version.active, version.retired) {
        (true, _) => ("active", "on"),
        (false, true) => ("retired", "warn"),
        (false, false) => ("accepted", ""),
    };
    let types = match version.reply_type.is_empty() {
        true => version.message_type,
        false => format!("{} → {}", version.message_type, version.reply_type),
    };
    VersionView {
        number: version.version,
        state,
        state_class,
        types,
        registered_at: time_short(version.registered_at_ms),
        registered_by: version.registered_by,
        fingerprint: version
            .fingerprint
            .iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
            .chars()
            .take(FINGERPRINT_DIGITS)
            .collect(),
        is_shown: version.version == shown,
        is_older: Some(version.version) == older,
        can_activate: !version.active,
        can_retire: !version.active && !version.retired,
    }
}

fn file(file: wire::SourceFile) -> FileView {
    FileView { is_folded: file.path.starts_with("google/protobuf/"), path: file.path, text: file.text }
}

fn client(client: wire::SchemaClient) -> ClientView {
    ClientView {
        name: client.client,
        role: client.role,
        group: client.group,
        version: match (client.version, client.contract.is_empty()) {
            (0, true) => "none declared".to_owned(),
            (0, false) => "unknown here".to_owned(),
            (version, _) => format!("v{version}"),
        },
        seen: if client.connected { "connected".to_owned() } else { time_short(client.last_seen_ms) },
    }
}
