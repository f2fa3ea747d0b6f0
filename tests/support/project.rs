//! A repository that generates: qwerq.toml, .proto files, and `qwer-q gen` run in it.

use std::fs;
use std::io::{BufRead, BufReader, Lines};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

use super::broker::{BINARY, Broker};
use super::cli::{done, stderr, stdout};

/// One message, to which `more` adds fields.
pub(crate) fn order(more: &str) -> String {
    format!("syntax = \"proto3\";\npackage shop.v1;\n\n// An order, as the shop takes it.\nmessage Order {{\n  string id = 1;\n{more}}}\n")
}

pub(crate) const TWO_OUTPUTS: &str = "[[output]]\nlang = \"rust\"\nout = \"src/queues\"\n\n\
    [[output]]\nlang = \"typescript\"\nout = \"web/queues\"\nimport_suffix = \"ts\"\nqueues = [\"orders*\"]\n";

pub(crate) const RUST_FROM_PROTO: &str = "from = \"proto\"\n\n[[output]]\nlang = \"rust\"\nout = \"src/queues\"\n\n\
    [[queue]]\nname = \"orders\"\nmessage = \"shop.v1.Order\"\n";

/// An address at which nobody listens: whoever asks a broker fails.
pub(crate) const NOBODY: &str = "127.0.0.1:1";

/// A repository.
pub(crate) struct Project {
    pub(crate) folder: tempfile::TempDir,
}

impl Project {
    pub(crate) fn new(config: &str) -> Project {
        let project = Project { folder: tempfile::tempdir().expect("a temporary directory") };
        project.write("qwerq.toml", config);
        project
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("it is in a folder")).expect("the folder can be made");
        fs::write(path, text).expect("the file can be written");
    }

    pub(crate) fn read(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    pub(crate) fn edit(&self, name: &str, from: &str, to: &str) {
        let text = self.read(name);
        assert!(text.contains(from), "{from:?} is not in {text}");
        self.write(name, &text.replacen(from, to, 1));
    }

    /// `qwer-q gen` in the repository, with a broker's address.
    pub(crate) fn command(&self, broker: &str, args: &[&str]) -> Output {
        let mut command = Command::new(BINARY);
        command.arg("gen").args(args).current_dir(self.folder.path()).env("QWERQ_BROKER", broker).env_remove("QWERQ_AUTH_TOKEN");
        command.output().expect("the binary runs")
    }

    /// A command that succeeds; its stdout.
    pub(crate) fn ok(&self, broker: &str, args: &[&str]) -> String {
        let output = self.command(broker, args);
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}: {output:?}");
        stdout(&output)
    }

    /// A command that ends with this code; all that it says.
    pub(crate) fn ends(&self, exit: i32, broker: &str, args: &[&str]) -> String {
        let output = self.command(broker, args);
        assert_eq!(output.status.code(), Some(exit), "{args:?}: {output:?}");
        stdout(&output) + &stderr(&output)
    }

    /// Every file with its text, but the .proto files.
    pub(crate) fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        collect(self.folder.path(), &mut found);
        found.sort();
        found
    }
}

fn collect(folder: &Path, found: &mut Vec<(String, Vec<u8>)>) {
    for entry in fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("the folder can be listed").path();
        if path.is_dir() {
            collect(&path, found);
        } else {
            found.push((path.display().to_string(), fs::read(&path).expect("the file can be read")));
        }
    }
}

/// Registers the message as the contract of a queue.
pub(crate) fn register(broker: &Broker, queue: &str, more: &str, args: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary directory");
    let path = folder.path().join("order.proto");
    fs::write(&path, order(more)).expect("the file can be written");
    let path = path.to_str().expect("a path in UTF-8");
    done(broker, &[&["schema", "register", "-q", queue, "-p", path, "-m", "shop.v1.Order"], args].concat());
}

pub(crate) fn broker_with_orders() -> Broker {
    let broker = Broker::start(&[]);
    register(&broker, "orders", "", &[]);
    broker
}

/// A broker that has the contracts of two examples: the order's on that queue, and those of the service `Pricing`.
pub(crate) fn broker_with_examples(orders: &str) -> Broker {
    let broker = Broker::start(&[]);
    for (proto, further) in [
        ("orders/proto/shop/v1/order.proto", &["-q", orders, "-m", "shop.v1.Order"][..]),
        ("pricing/proto/shop/v1/pricing.proto", &["--service", "shop.v1.Pricing"]),
    ] {
        let proto = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples").join(proto);
        let folder = proto.ancestors().nth(3).expect("it is in a folder of protos");
        let [proto, folder] = [proto.as_path(), folder].map(|path| path.to_str().expect("a path in UTF-8"));
        done(&broker, &[&["schema", "register", "-p", proto, "-I", folder], further].concat());
    }
    broker
}

/// A `gen --watch` that runs; killed when dropped.
pub(crate) struct Watch {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watch {
    pub(crate) fn start(project: &Project, broker: &str) -> Watch {
        let mut command = Command::new(BINARY);
        command.args(["gen", "--watch"]).current_dir(project.folder.path()).env("QWERQ_BROKER", broker).env_remove("QWERQ_AUTH_TOKEN");
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the binary starts");
        let stdout = child.stdout.take().expect("stdout is piped");
        Watch { child, lines: BufReader::new(stdout).lines() }
    }

    /// What it says from here to the first line that holds this.
    pub(crate) fn until(&mut self, part: &str) -> String {
        let mut said = String::new();
        while !said.contains(part) {
            said.push_str(&self.lines.next().expect("it says more").expect("stdout is text"));
            said.push('\n');
        }
        said
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
