//! A folder of .proto files as the source: what its qwerq.toml says, and what is wrong with it.

use std::{fs, path::Path};

use qwerq_codegen::folder;

/// What reading a folder of these files says.
fn outcome(files: &[(&str, &str)]) -> String {
    let dir = tempfile::tempdir().expect("a temporary directory");
    for (name, text) in files {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().expect("a parent")).expect("mkdir");
        fs::write(path, text).expect("write");
    }
    let relative = |text: String| text.replace(&format!("{}/", dir.path().display()), "").replace(&shown(dir.path()), "DIR");
    match folder::read(dir.path(), &[]) {
        Err(diagnostics) => relative(diagnostics.to_string()),
        Ok(folder) => {
            let queues: Vec<String> =
                folder.contracts.iter().map(|contract| format!("{}: {}", contract.queue, contract.message_type)).collect();
            let roots = folder.types.roots.join(" ");
            relative(format!("{roots} | {}\n{}", queues.join(", "), folder.warnings)).trim_end().to_owned()
        }
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

const ORDER: (&str, &str) =
    ("shop/v1/order.proto", "syntax = \"proto3\"; package shop.v1; import \"shop/v1/money.proto\"; message Order { Money m = 1; }");
const MONEY: (&str, &str) = ("shop/v1/money.proto", "syntax = \"proto3\"; package shop.v1; message Money {}");

#[test]
fn folders() {
    let toml = |text: &'static str| ("qwerq.toml", text);
    let skipped = ("node_modules/x/broken.proto", "not proto");
    let cases = [
        outcome(&[ORDER, MONEY, skipped, toml("[[queue]]\nname = \"orders\"\nmessage = \"shop.v1.Order\"\nreply = \"shop.v1.Money\"\n")]),
        outcome(&[ORDER, MONEY]),
        outcome(&[("readme.md", "")]),
        outcome(&[
            ORDER,
            MONEY,
            toml(
                "[[queue]]\nname = \"orders\"\nmessage = \"shop.Order\"\n\n[[queue]]\nname = \"b\"\nmessage = \"shop.v1.Order\"\nreply = \"Money\"\n",
            ),
        ]),
        outcome(&[ORDER, MONEY, toml("[[queue]]\nname = \"orders\"\nmesage = \"shop.v1.Order\"\n")]),
        outcome(&[ORDER, MONEY, toml("[[queue]\n")]),
        outcome(&[ORDER, ("a.proto", "syntax = \"proto3\"; mesage A {}"), ("b.proto", "syntax = \"proto3\"; message B { C c = 1; }")]),
    ];
    insta::assert_snapshot!(cases.join("\n----\n"));
}
