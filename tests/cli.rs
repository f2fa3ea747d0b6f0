//! The command line as users meet it: the real binary against a real broker, its output, exit codes and errors.
//!
//! What the broker decides is tested elsewhere; here counts what a person or a script sees of it.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;

use qwerq_proto::{Frame, Opcode, wire};
use serde_json::{Value, json};
use support::broker::{BINARY, Broker};
use support::cli::{contains_all, data, done, fails, json_lines, payload, stderr, stdout, with_stdin};
use support::raw::Raw;

fn terminate(child: &Child) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), rustix::process::Signal::TERM).expect("it runs");
}

#[test]
fn every_way_to_publish_arrives_as_it_was_given() {
    let broker = Broker::start(&[]);
    let file = broker.data().with_file_name("payload.bin");
    fs::write(&file, [0, 1, 0xff]).expect("the directory is ours");
    let said = done(&broker, &["publish", "-q", "plain", "--body", "{not json", "-H", "source=shop", "-H", "eq=a=b", "--key", "k-7"]);
    contains_all(&said, &["published ", "seq 0", "fsync"]);
    done(&broker, &["publish", "-q", "plain", "--hex", "00ff"]);
    let receipt = json_lines(&broker, &["publish", "-q", "plain", "--hex", "", "--json"]).remove(0);
    assert_eq!((&receipt["seq"], &receipt["duplicate"], &receipt["durability"]), (&json!(2), &json!(false), &json!("fsync")));
    done(&broker, &["publish", "-q", "plain", "--raw", &file.display().to_string()]);
    let lines = with_stdin(&broker, &["publish", "-q", "plain"], "one\n\ntwo\n");
    assert_eq!((lines.status.code(), stdout(&lines).as_str()), (Some(0), "published 2 messages\n"));

    let messages = json_lines(&broker, &["consume", "-q", "plain", "-n", "6"]);
    let payloads: Vec<_> = messages.iter().map(payload).collect();
    assert_eq!(payloads, [b"{not json".as_slice(), &[0, 0xff], b"", &[0, 1, 0xff], b"one", b"two"]);
    let first = &messages[0];
    assert_eq!((&first["seq"], &first["queue"], &first["attempt"]), (&json!(0), &json!("plain"), &json!(1)));
    assert_eq!((&first["headers"], &first["ordering_key"]), (&json!({"source": "shop", "eq": "a=b"}), &json!("k-7")));
    assert_eq!(messages[2]["id"], receipt["id"]);
    assert!(first["published_at"].as_str().is_some_and(|time| time.starts_with("20") && time.ends_with('Z')), "{first}");
    assert_eq!(done(&broker, &["consume", "-q", "plain", "--wait", "1ms"]), "", "all were acknowledged; none is not an error");
}

#[test]
fn through_a_contract_json_goes_in_and_comes_out() {
    let broker = Broker::start(&[]);
    let said = done(&broker, &["schema", "register", "-q", "orders", "-p", &data("order.proto"), "-m", "t.Order"]);
    assert_eq!(said, "orders: t.Order is version 1 (new)\n");
    let again = done(&broker, &["schema", "register", "-q", "orders", "-p", &data("order.proto"), "-m", "t.Order"]);
    assert_eq!(again, "orders: t.Order is version 1 (known before, now active)\n");
    contains_all(&done(&broker, &["schema", "list"]), &["QUEUE", "orders", "t.Order", "active"]);
    let listed = json_lines(&broker, &["schema", "list", "--json"]);
    assert_eq!((listed.len(), &listed[0]["queue"], &listed[0]["version"]), (1, &json!("orders"), &json!(1)));
    assert_eq!(done(&broker, &["schema", "get", "-q", "orders"]), fs::read_to_string(data("order.proto")).expect("it is there"));
    let schema = json_lines(&broker, &["schema", "get", "-q", "orders", "--format", "json"]).remove(0);
    assert_eq!(schema["fingerprint"], listed[0]["fingerprint"]);
    contains_all(&fails(&broker, 1, &["schema", "get", "-q", "nothing"]), &["queue-not-found", "`qwer-q queue list`"]);
    let wrong = fails(&broker, 1, &["schema", "register", "-q", "orders", "-p", &data("order.proto"), "-m", "t.Oder"]);
    contains_all(&wrong, &["no message `t.Oder`", "t.Order"]);

    done(&broker, &["publish", "-q", "orders", "--body", r#"{"id": "o-1", "qty": 2, "lines": {"a": {"sku": "s"}}}"#]);
    let message = json_lines(&broker, &["consume", "-q", "orders", "-n", "1"]).remove(0);
    assert_eq!(message["body"], json!({"id": "o-1", "qty": 2, "lines": {"a": {"sku": "s"}}}));
    assert_eq!(message.get("payload_base64"), None);
}

#[test]
fn a_refused_message_is_explained_and_the_others_go_on() {
    let broker = Broker::start(&[]);
    done(&broker, &["schema", "register", "-q", "legacy", "-p", &data("legacy.proto"), "-m", "t2.R"]);
    let said = fails(&broker, 1, &["publish", "-q", "legacy", "--hex", "0a0161 1202 0801"]);
    contains_all(&said, &["error: schema-violation: ", "path: sub.id\n", "offset: 5\n", "version: 1\n", "next: correct the payload"]);
    contains_all(&said, &["`qwer-q schema get -q legacy`"]);

    // The second is no R, the third is one that lacks a required field, which only the broker sees.
    let input = "{\"id\": \"a\"}\n{\"idd\": \"b\"}\n{\"nums\": [1]}\n{\"id\": \"d\"}\n";
    let output = with_stdin(&broker, &["publish", "-q", "legacy"], input);
    assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), "published 2 messages\n"));
    let said = stderr(&output);
    contains_all(
        &said,
        &["error: line 2: not a t2.R: ", "idd: t2.R has no such field", "error: line 3: schema-violation: ", "path: id\n", "offset: 2\n"],
    );
    contains_all(&said, &["next: correct the payload", "error: 2 of 4 messages were not published"]);
    let bodies: Vec<_> =
        json_lines(&broker, &["consume", "-q", "legacy", "-n", "2"]).into_iter().map(|line| line["body"]["id"].clone()).collect();
    assert_eq!(bodies, ["a", "d"]);
}

#[test]
fn queues_are_made_shown_and_deleted() {
    let broker = Broker::start(&[]);
    done(&broker, &["queue", "create", "jobs", "--max-deliveries", "9", "--visibility-timeout", "2m"]);
    done(&broker, &["queue", "create", "jobs", "--max-deliveries", "9", "--visibility-timeout", "2m"]);
    contains_all(&fails(&broker, 1, &["queue", "create", "jobs", "--max-deliveries", "8"]), &["queue-exists", "`qwer-q queue info jobs`"]);
    done(&broker, &["publish", "-q", "jobs", "--body", "x"]);
    contains_all(&done(&broker, &["queue", "list"]), &["QUEUE", "DEPTH", "jobs"]);
    let listed = json_lines(&broker, &["queue", "list", "--json"]);
    assert_eq!((listed.len(), &listed[0]["name"], &listed[0]["depth"]), (1, &json!("jobs"), &json!(1)));
    contains_all(&done(&broker, &["queue", "info", "jobs"]), &["depth", "max_deliveries", "9"]);
    assert_eq!(json_lines(&broker, &["queue", "info", "jobs", "--json"])[0]["options"]["max_deliveries"], 9);
    done(&broker, &["queue", "delete", "jobs", "--yes"]);
    contains_all(&fails(&broker, 1, &["queue", "info", "jobs"]), &["queue-not-found", "jobs", "qwer-q queue create jobs"]);
    assert_eq!(json_lines(&broker, &["queue", "list", "--json"]), Vec::<Value>::new());
}

#[test]
fn wrong_usage_is_exit_code_2_before_a_broker_is_asked() {
    let nowhere = ["-b", "127.0.0.1:1"];
    for (args, part) in [
        (&["publish"][..], "--queue"),
        (&["publish", "-q", "../etc", "--body", "x"], "a name is 1 to 251"),
        (&["publish", "-q", "a", "--body", "x", "--hex", "00"], "cannot be used with"),
        (&["publish", "-q", "a", "--hex", "0"], "two make a byte"),
        (&["publish", "-q", "a", "-H", "no-value"], "NAME=VALUE"),
        (&["consume", "-q", "a", "--wait", "soon"], "soon"),
        (&["consume", "-q", "a", "-n", "-1"], "-1"),
        (&["queue", "create", "a", "--max-deliveries", "many"], "many"),
        (&["queue", "info"], "QUEUE"),
        (&["schema", "register", "-q", "a"], "--proto"),
        (&["send"], "send"),
    ] {
        let mut command = Command::new(BINARY);
        command.args(args).env_remove("QWERQ_AUTH_TOKEN");
        let output = if args[0] == "send" { command.output() } else { command.args(nowhere).output() }.expect("the binary runs");
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{args:?}: {}", stderr(&output));
        contains_all(&stderr(&output), &[part]);
    }
}

#[test]
fn without_a_broker_the_exit_code_is_3_and_what_was_tried_is_said() {
    let free = TcpListener::bind("127.0.0.1:0").and_then(|listener| listener.local_addr()).expect("a free port").to_string();
    for command in [
        &["publish", "-q", "a", "--body", "x"][..],
        &["consume", "-q", "a"],
        &["peek", "-q", "a"],
        &["queue", "list"],
        &["queue", "delete", "a", "--yes"],
        &["group", "list", "-q", "a"],
        &["dlq", "list", "-q", "a"],
        &["schema", "list"],
    ] {
        let output = Command::new(BINARY).args(command).args(["-b", &free]).env_remove("QWERQ_AUTH_TOKEN").output().expect("it runs");
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(3), ""), "{command:?}");
        contains_all(&stderr(&output), &[&format!("cannot reach a broker at {free}"), "tried: ", "refused", "next: ", "qwer-q serve"]);
    }
}

#[test]
fn a_token_closes_the_broker_and_health_stays_open() {
    let broker = Broker::start(&["--auth-token", "secret"]);
    contains_all(&fails(&broker, 1, &["queue", "list"]), &["unauthorized", "next: ", "--auth-token"]);
    assert_eq!(json_lines(&broker, &["queue", "list", "--json", "--auth-token", "secret"]), Vec::<Value>::new());
    assert_eq!(done(&broker, &["health", "--address", &broker.http.to_string()]), "ready\n");
    let nobody = fails(&broker, 1, &["health", "--address", "127.0.0.1:1"]);
    contains_all(&nobody, &["no answer from http://127.0.0.1:1/readyz", "next: "]);
}

#[test]
fn shells_get_completions_and_man_gets_pages() {
    let run = |args: &[&str]| {
        let output = Command::new(BINARY).args(args).output().expect("the binary runs");
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
        stdout(&output)
    };
    for shell in ["bash", "elvish", "fish", "powershell", "zsh"] {
        contains_all(&run(&["completions", shell]), &["redrive", "visibility-timeout"]);
    }
    contains_all(&run(&["man"]), &[".TH qwer-q 1", "message queue", "Examples:"]);
    contains_all(&run(&["man", "queue", "create"]), &[".TH qwer-q-queue-create 1", "visibility", "Examples:"]);
    let directory = tempfile::tempdir().expect("a temporary directory");
    let folder = directory.path().join("man1");
    let said = run(&["man", "--out", &folder.display().to_string()]);
    let pages: BTreeSet<_> = fs::read_dir(&folder).expect("it was made").map(|page| page.expect("an entry").file_name()).collect();
    assert_eq!(said, format!("wrote {} pages to {}\n", pages.len(), folder.display()));
    for page in ["qwer-q.1", "qwer-q-serve.1", "qwer-q-dlq-redrive.1", "qwer-q-gen-verify.1"] {
        assert!(pages.contains(std::ffi::OsStr::new(page)), "{page}: {pages:?}");
    }
}

#[test]
fn a_typing_mistake_is_answered_with_what_was_meant() {
    for (args, meant) in [
        (&["pubish"][..], "'publish'"),
        (&["queue", "lst"], "'list'"),
        (&["publish", "-q", "a", "--boddy", "x"], "'--body'"),
        (&["man", "queue", "crate"], "`qwer-q queue --help`"),
    ] {
        let output = Command::new(BINARY).args(args).output().expect("the binary runs");
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(2), ""), "{args:?}");
        contains_all(&stderr(&output), &[meant]);
    }
}

#[test]
fn a_closed_pipe_is_not_an_error() {
    let broker = Broker::start(&[]);
    done(&broker, &["publish", "-q", "piped", "--body", "x"]);
    for args in [&["consume", "-q", "piped"][..], &["queue", "list"]] {
        let mut child = broker.command(args).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary starts");
        // As `| head -1` does: one line, then nobody reads.
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("stdout is piped")).read_line(&mut line).expect("text");
        assert_ne!(line, "");
        let output = child.wait_with_output().expect("it ends by itself");
        assert_eq!((output.status.code(), stderr(&output).as_str()), (Some(0), ""), "{args:?}");
    }
}

#[test]
fn a_second_broker_on_the_same_directory_is_refused_and_an_injected_port_only_warned_about() {
    let broker = Broker::start(&[]);
    let directory = broker.data().display().to_string();
    let second = Command::new(BINARY)
        .args(["serve", "--metrics-port", "0", "--data-dir", &directory, "--config"])
        .arg(settings_file(&broker, "port = 0\n"))
        .env("QWERQ_PORT", "tcp://10.0.0.1:9876")
        .output()
        .expect("the binary runs");
    assert_eq!((second.status.code(), stdout(&second).as_str()), (Some(1), ""));
    contains_all(&stderr(&second), &["error: ", &directory, &broker.pid().to_string()]);
    contains_all(&stderr(&second), &["WARN", "QWERQ_PORT starts with tcp://"]);
    done(&broker, &["publish", "-q", "still", "--body", "x"]);
}

#[test]
fn a_directory_that_cannot_be_used_is_named_with_what_to_do() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("file");
    fs::write(&file, "").expect("the directory is ours");
    let uid = rustix::process::geteuid().as_raw();
    // Nobody makes a directory in /sys, not even root.
    for (data_dir, parts) in [
        ("/sys/qwerq".to_owned(), vec![format!("uid {uid} cannot write to /sys"), format!("chown -R {uid}")]),
        (file.join("data").display().to_string(), vec!["Not a directory".to_owned()]),
    ] {
        let output = Command::new(BINARY)
            .args(["serve", "--port", "0", "--metrics-port", "0", "--data-dir", &data_dir])
            .env_remove("QWERQ_AUTH_TOKEN")
            .output()
            .expect("the binary runs");
        assert_eq!((output.status.code(), stdout(&output).as_str()), (Some(1), ""), "{data_dir}");
        let said = stderr(&output);
        contains_all(&said, &[&format!("error: cannot start on the data directory {data_dir}"), "choose another --data-dir"]);
        contains_all(&said, &parts.iter().map(String::as_str).collect::<Vec<_>>());
        assert_eq!(said.matches("os error").count(), 1, "the cause is said once: {said}");
    }
}

fn settings_file(broker: &Broker, text: &str) -> std::path::PathBuf {
    let file = broker.data().with_file_name("qwerq.toml");
    fs::write(&file, text).expect("the directory is ours");
    file
}

#[test]
fn flags_win_over_variables_and_variables_over_the_file() {
    let directory = tempfile::tempdir().expect("a temporary directory");
    let file = directory.path().join("qwerq.toml");
    fs::write(&file, "max_deliveries = 7\nmax_messages = 7\nvisibility_timeout = '7s'\n").expect("the directory is ours");
    let file = file.display().to_string();
    let environment = [("QWERQ_CONFIG", file.as_str()), ("QWERQ_MAX_MESSAGES", "8"), ("QWERQ_VISIBILITY_TIMEOUT", "8s")];
    let broker = Broker::start_with(&["--visibility-timeout", "9s"], &environment);
    done(&broker, &["queue", "create", "q"]);
    let options = json_lines(&broker, &["queue", "info", "q", "--json"])[0]["options"].clone();
    assert_eq!((&options["max_deliveries"], &options["max_messages"]), (&json!(7), &json!(8)), "{options}");
    assert_eq!(options["visibility_timeout_ms"], 9_000, "{options}");

    fs::write(&file, "prot = 1\n").expect("the directory is ours");
    for (arguments, variable, parts) in [
        (&["serve", "--config", &file][..], ("QWERQ_BIND", ""), ["`prot`", "max_deliveries"]),
        (&["serve"], ("QWERQ_BIND", "example.org"), ["QWERQ_BIND", "example.org"]),
        (&["serve", "--durability", "sync"], ("QWERQ_BIND", ""), ["--durability", "fsync"]),
    ] {
        let output = Command::new(BINARY).args(arguments).env(variable.0, variable.1).output().expect("the binary runs");
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", stderr(&output));
        contains_all(&stderr(&output), &parts);
    }
}

#[test]
fn sigterm_ends_the_broker_with_0_and_nothing_acknowledged_is_lost() {
    let mut broker = Broker::start(&[]);
    let address = broker.address;
    let (first, begun) = mpsc::channel();
    let publisher = std::thread::spawn(move || {
        let mut raw = Raw::hello(address);
        let mut acknowledged = BTreeSet::new();
        for number in 0_u64.. {
            let item = wire::PublishItem { payload: number.to_be_bytes().to_vec().into(), ..wire::PublishItem::default() };
            let mut bytes = Vec::new();
            let publish = wire::Publish { queue: "q".to_owned(), items: vec![item], ..wire::Publish::default() };
            qwerq_proto::encode_frame(&mut bytes, Opcode::Publish, None, &publish);
            if !raw.write(&bytes) {
                break;
            }
            match answer(&mut raw) {
                Some(ack) if ack.results[0].error.is_none() => acknowledged.insert(number),
                _ => break,
            };
            // The main thread listens only until it has heard enough.
            let _ = first.send(number);
        }
        acknowledged
    });
    assert!(begun.iter().any(|number| number >= 20), "publishes are acknowledged");
    assert_eq!(broker.terminate().code(), Some(0));
    let acknowledged = publisher.join().expect("the publisher ends with the connection");
    broker.restart();
    let count = json_lines(&broker, &["queue", "info", "q", "--json"])[0]["depth"].to_string();
    let kept: BTreeSet<_> = json_lines(&broker, &["consume", "-q", "q", "-n", &count])
        .iter()
        .map(|message| u64::from_be_bytes(payload(message).try_into().expect("eight bytes")))
        .collect();
    assert!(acknowledged.is_subset(&kept), "lost: {:?}", acknowledged.difference(&kept));
    assert!(acknowledged.len() > 20);
}

/// The next PUBLISH_ACK; none when the broker refuses or is gone. It may say before that it drains.
fn answer(raw: &mut Raw) -> Option<wire::PublishAck> {
    loop {
        let Frame { opcode, payload, .. } = raw.next()?;
        match Opcode::from_u8(opcode) {
            Some(Opcode::PublishAck) => return Some(prost::Message::decode(payload).expect("a PUBLISH_ACK")),
            Some(Opcode::Error) => return None,
            _ => {}
        }
    }
}

#[test]
fn an_empty_directory_is_small_and_a_message_survives_a_kill() {
    fn files_bytes(folder: &Path) -> u64 {
        let entries = fs::read_dir(folder).expect("the directory is there").map(|entry| entry.expect("it can be listed").path());
        entries.map(|path| if path.is_dir() { files_bytes(&path) } else { path.metadata().map_or(0, |file| file.len()) }).sum()
    }
    let mut broker = Broker::start(&[]);
    let bytes = files_bytes(broker.data());
    assert!(bytes <= 32 << 20, "{bytes} bytes of files");
    let receipt = json_lines(&broker, &["publish", "-q", "kept", "--body", "still here", "--json"]).remove(0);
    broker.kill();
    broker.restart();
    let message = json_lines(&broker, &["consume", "-q", "kept", "-n", "1"]).remove(0);
    assert_eq!((&message["id"], payload(&message).as_slice()), (&receipt["id"], b"still here".as_slice()));
}

#[test]
fn four_consumers_in_two_groups_see_every_message_once_a_group() {
    const MESSAGES: usize = 40;
    let broker = Broker::start(&[]);
    done(&broker, &["queue", "create", "orders"]);
    let (sender, lines) = mpsc::channel();
    let mut consumers = Vec::new();
    for group in ["billing", "billing", "mail", "mail"] {
        let mut child =
            broker.command(&["consume", "-q", "orders", "-g", group]).stdout(Stdio::piped()).spawn().expect("the binary starts");
        let output = BufReader::new(child.stdout.take().expect("stdout is piped"));
        let sender = sender.clone();
        let reader = std::thread::spawn(move || {
            for line in output.lines() {
                let message: Value = serde_json::from_str(&line.expect("text")).expect("JSON");
                sender.send((group, message["seq"].as_u64().expect("a number"))).expect("the test listens");
            }
        });
        consumers.push((child, reader));
    }
    // A group sees what is published after its making, and what is older only if no other group has finished it.
    let consumers_of = |info: &Value| -> Option<u64> {
        let groups = info["groups"].as_array()?;
        groups.iter().map(|group| group["consumers"].as_u64()).sum()
    };
    while consumers_of(&json_lines(&broker, &["queue", "info", "orders", "--json"])[0]) != Some(4) {
        std::thread::yield_now();
    }
    let input: String = (0..MESSAGES).map(|number| format!("order {number}\n")).collect();
    assert_eq!(with_stdin(&broker, &["publish", "-q", "orders"], &input).status.code(), Some(0));
    let mut seen: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for (group, seq) in lines.iter().take(2 * MESSAGES) {
        assert!(seen.entry(group).or_default().insert(seq), "{group} saw {seq} twice");
    }
    assert!(seen.len() == 2 && seen.values().all(|seqs| seqs.len() == MESSAGES), "{seen:?}");
    for (mut child, reader) in consumers {
        terminate(&child);
        assert_eq!(child.wait().expect("it was ours").code(), Some(0), "an interrupt is a way to end");
        reader.join().expect("lines of JSON");
    }
}
