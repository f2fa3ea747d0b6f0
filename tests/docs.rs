//! The documents agree with the code and with each other: a page for every error code and no other, and no link into nothing.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use qwerq_proto::{Class, ErrorCode};
use support::tool;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Every Markdown file under `folder`.
fn pages(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            found.extend(pages(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

#[test]
fn every_error_code_has_a_page_and_every_page_a_code() {
    let folder = root().join("docs/errors");
    let index = fs::read_to_string(folder.join("README.md")).expect("docs/errors/README.md is there");
    let mut names: BTreeSet<String> =
        pages(&folder).iter().map(|page| page.file_stem().expect("a file has a name").to_string_lossy().into_owned()).collect();
    assert!(names.remove("README"));
    for code in ErrorCode::ALL {
        let (name, number) = (code.name(), *code as u32);
        assert!(names.remove(name), "docs/errors/{name}.md is missing");
        let page = fs::read_to_string(folder.join(format!("{name}.md"))).expect("just listed");
        assert!(page.starts_with(&format!("# {name} ({number})\n\n{}\n", code.summary())), "{name}: title and first sentence");
        let class = match code.class() {
            Class::Rejection => "rejection",
            Class::Unavailable => "unavailable",
            Class::Protocol => "protocol",
            Class::Fault => "fault",
        };
        assert!(page.contains(&format!("\nClass {class}: ")), "{name}: class");
        for section in ["Meaning", "Usual cause", "What to do"] {
            assert!(page.contains(&format!("\n## {section}\n\n")), "{name}: section {section}");
        }
        let row = format!("| {number} | [{name}]({name}.md) | {} |", code.summary());
        assert!(index.contains(&row), "the index has no row {row}");
    }
    assert!(names.is_empty(), "pages without a code: {names:?}");
}

#[test]
fn links_between_documents_lead_somewhere() {
    let mut documents = pages(&root().join("docs"));
    documents.extend(
        pages(&root().join("examples")).into_iter().filter(|page| !page.components().any(|part| part.as_os_str() == "node_modules")),
    );
    documents.extend(["README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"].map(|name| root().join(name)));
    for document in documents {
        let text = fs::read_to_string(&document).expect("just listed");
        let folder = document.parent().expect("a file is in a folder");
        for link in text.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link) {
            if link.contains("://") {
                continue;
            }
            let (path, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = if path.is_empty() { document.clone() } else { folder.join(path) };
            assert!(target.exists(), "{}: nothing at {link}", document.display());
            if !anchor.is_empty() {
                let target = fs::read_to_string(&target).expect("an anchor is in a document");
                let found = target.lines().filter(|line| line.starts_with('#')).any(|heading| anchor_of(heading) == anchor);
                assert!(found, "{}: no heading for {link}", document.display());
            }
        }
    }
}

#[test]
fn every_page_is_in_an_index() {
    for folder in ["docs", "docs/errors", "docs/adr", "docs/plans"] {
        let folder = root().join(folder);
        let index = fs::read_to_string(folder.join("README.md")).expect("each folder has an index");
        for entry in fs::read_dir(&folder).expect("the folder is there") {
            let name = entry.expect("the folder can be listed").file_name().to_string_lossy().into_owned();
            if name.ends_with(".md") && name != "README.md" {
                assert!(index.contains(&format!("]({name}")), "{} does not lead to {name}", folder.join("README.md").display());
            }
        }
    }
}

#[test]
fn the_image_is_built_with_the_pinned_toolchain() {
    let toolchain = fs::read_to_string(root().join("rust-toolchain.toml")).expect("rust-toolchain.toml is there");
    let (_, version) = toolchain.split_once("channel = \"").expect("a channel is pinned");
    let (version, _) = version.split_once('"').expect("a string ends");
    let dockerfile = fs::read_to_string(root().join("Dockerfile")).expect("the Dockerfile is there");
    assert!(dockerfile.contains(&format!("FROM rust:{version}-slim-")), "the Dockerfile builds with another Rust than {version}");
    let label = format!("org.opencontainers.image.version=\"{}\"", env!("CARGO_PKG_VERSION"));
    assert!(dockerfile.contains(&label), "the image's label says another version than Cargo.toml: {label}");
}

#[test]
fn prometheus_takes_the_configuration() {
    if !tool::are_installed(&["promtool"]) {
        return;
    }
    let file = root().join("docs/monitoring/prometheus.yml");
    let checked = Command::new("promtool").args(["check", "config", "--syntax-only"]).arg(file).output().expect("it is installed");
    assert!(checked.status.success(), "{checked:?}");
}

/// The anchor that forges give a heading.
fn anchor_of(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_')).map(|c| if c == ' ' { '-' } else { c }).collect()
}
