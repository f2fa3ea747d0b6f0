//! The difference of two versions of a contract: of their texts, line by line, and what it breaks at which level.

use askama::Template;
use axum::response::Response;
use qwerq_proto::{ErrorCode, Opcode, wire};
use serde::Deserialize;
use similar::{ChangeTag, TextDiff};
use utoipa::IntoParams;

use crate::registry::compatibility::{Change, Layer, Version, compare};

use super::asked::{Asked, QueueName};
use super::frame::{ErrorPage, Frame, Section, page};
use super::queue_head::{QueueHead, Tab};
use super::visit::Visit;

/// Lines around a change that are shown.
const AROUND: usize = 3;

/// Which versions.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(default)]
pub(super) struct Pair {
    /// The earlier one.
    from: String,
    /// The later one; the active one unless given.
    to: String,
}

struct FindingView {
    rule: String,
    path: String,
    change: String,
    breaks: String,
}

struct LineView {
    class: &'static str,
    sign: &'static str,
    text: String,
}

struct FileView {
    path: String,
    lines: Vec<LineView>,
}

#[derive(Template)]
#[template(path = "diff.html")]
struct DiffPage {
    frame: Frame,
    head: QueueHead,
    from: u32,
    to: u32,
    findings: Vec<FindingView>,
    files: Vec<FileView>,
}

/// The difference of two versions
#[utoipa::path(
    get, path = "/queues/{queue}/contract/diff", tag = "dashboard",
    params(("queue" = String, Path, description = "Name of the queue"), Pair),
    responses(
        (status = 200, description = "The page", body = String, content_type = "text/html"),
        (status = 404, description = "A page that says that there is no such queue or version", body = String, content_type = "text/html"),
        (status = 500, description = "A page that says that a version cannot be read", body = String, content_type = "text/html"),
    )
)]
pub(super) async fn diff(mut visit: Visit, QueueName(name): QueueName, Asked(pair): Asked<Pair>) -> Result<Response, ErrorPage> {
    let queue = visit.queue(&name).await?;
    let head = QueueHead::of(&mut visit, &queue, Tab::Contract).await?;
    let from = version(&mut visit, &name, &pair.from).await?;
    let to = version(&mut visit, &name, &pair.to).await?;
    let numbers = (number(&from), number(&to));
    let files = files(&from.sources, &to.sources);
    // Two large closures take a while to link; other requests go on meanwhile.
    let compared = tokio::task::spawn_blocking(move || Some(compare(&linked(&from)?, &linked(&to)?))).await.ok().flatten();
    let unread = || ErrorCode::Internal.with("a version that is stored cannot be read; the log of the broker's start says more");
    let changes = compared.ok_or_else(|| visit.refused(unread()))?;
    Ok(page(&DiffPage {
        frame: visit.frame(format!("Contract of {name}"), if head.is_stream { Section::Streams } else { Section::Queues }),
        head,
        from: numbers.0,
        to: numbers.1,
        findings: changes.iter().map(finding).collect(),
        files,
    }))
}

async fn version(visit: &mut Visit, queue: &str, number: &str) -> Result<wire::SchemaResponse, ErrorPage> {
    let get = wire::SchemaGet { queue: queue.to_owned(), version: number.parse().unwrap_or(0), ..wire::SchemaGet::default() };
    visit.ask(Opcode::SchemaGet, &get).await
}

fn number(response: &wire::SchemaResponse) -> u32 {
    response.version.as_ref().map_or(0, |version| version.version)
}

fn linked(response: &wire::SchemaResponse) -> Option<Version> {
    let version = response.version.as_ref()?;
    let reply = Some(version.reply_type.as_str()).filter(|name| !name.is_empty());
    Version::compile(&response.descriptor_set, &version.message_type, reply).ok()
}

fn finding(change: &Change) -> FindingView {
    let level = |layer: Layer| match layer {
        Layer::Wire => "wire",
        Layer::Json => "wire-json",
        Layer::Source => "source",
    };
    let side = |who: &str, layer: Option<Layer>| layer.map(|layer| format!("{who} at {}", level(layer)));
    let sides: Vec<_> =
        [side("new readers", change.breaks.backward), side("old readers", change.breaks.forward)].into_iter().flatten().collect();
    let change_words: Vec<_> = [change.before.as_str(), change.after.as_str()].into_iter().filter(|text| !text.is_empty()).collect();
    FindingView {
        rule: change.rule.id().to_owned(),
        path: change.path.clone(),
        change: change_words.join(" → "),
        breaks: if sides.is_empty() { "nobody for sure".to_owned() } else { sides.join(", ") },
    }
}

/// The files whose texts differ.
fn files(from: &[wire::SourceFile], to: &[wire::SourceFile]) -> Vec<FileView> {
    let mut paths: Vec<&str> = from.iter().chain(to).map(|file| file.path.as_str()).collect();
    paths.sort_unstable();
    paths.dedup();
    let text = |files: &'_ [wire::SourceFile], path: &str| {
        files.iter().find(|file| file.path == path).map(|file| file.text.clone()).unwrap_or_default()
    };
    let view = |path: &str| {
        let (old, new) = (text(from, path), text(to, path));
        (old != new).then(|| FileView { path: path.to_owned(), lines: lines(&old, &new) })
    };
    paths.into_iter().filter_map(view).collect()
}

fn lines(old: &str, new: &str) -> Vec<LineView> {
    let diff = TextDiff::from_lines(old, new);
    let mut lines = Vec::new();
    for group in diff.grouped_ops(AROUND) {
        if !lines.is_empty() {
            lines.push(LineView { class: "gap", sign: "", text: "⋯".to_owned() });
        }
        for change in group.iter().flat_map(|operation| diff.iter_changes(operation)) {
            let (class, sign) = match change.tag() {
                ChangeTag::Equal => ("", " "),
                ChangeTag::Insert => ("added", "+"),
                ChangeTag::Delete => ("removed", "−"),
            };
            lines.push(LineView { class, sign, text: change.value().trim_end_matches(['\n', '\r']).to_owned() });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changed_files_are_shown_line_by_line() {
        let file = |path: &str, text: &str| wire::SourceFile { path: path.into(), text: text.into() };
        let shown = files(&[file("a", "1\n2\n"), file("b", "x")], &[file("a", "1\n3\n"), file("b", "x")]);
        let lines: Vec<_> = shown.iter().flat_map(|file| &file.lines).map(|line| format!("{}{}", line.sign, line.text)).collect();
        assert_eq!((shown.len(), lines), (1, vec![" 1".to_owned(), "−2".to_owned(), "+3".to_owned()]));
    }
}
