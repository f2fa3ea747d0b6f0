//! The compose files, read as Docker Compose reads them, by its own library (`tests/compose`): what they name is there, and fits what the
//! image, the binary and the configuration of the monitoring say. Whether an engine starts them is not tried here.

mod support;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;

use serde_json::Value;

use support::broker::BINARY;
use support::tool;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn text(file: &str) -> String {
    fs::read_to_string(root().join(file)).unwrap_or_else(|error| panic!("{file}: {error}"))
}

/// The project that the files make together; none, and said so, without Go.
fn project(files: &[&str]) -> Option<Value> {
    if !tool::are_installed(&["go"]) {
        return None;
    }
    let files = files.iter().map(|file| root().join(file));
    let mut command = Command::new("go");
    command.args(["run", "."]).args(files).current_dir(root().join("tests/compose")).env_remove("QWERQ_AUTH_TOKEN");
    let read = command.output().expect("it is installed");
    assert!(read.status.success(), "{}", String::from_utf8_lossy(&read.stderr));
    Some(serde_json::from_slice(&read.stdout).expect("it prints JSON"))
}

/// The words behind an instruction of the Dockerfile's last stage.
fn image(instruction: &str) -> Vec<String> {
    let dockerfile = text("Dockerfile");
    let (_, last_stage) = dockerfile.split_once("FROM scratch").expect("the image is made from nothing");
    let lines = last_stage.lines().filter_map(|line| line.strip_prefix(instruction)?.strip_prefix(' '));
    lines.flat_map(str::split_whitespace).map(str::to_owned).collect()
}

fn values<'a>(service: &'a Value, list: &str, key: &str) -> Vec<&'a str> {
    service[list].as_array().into_iter().flatten().filter_map(|entry| entry[key].as_str()).collect()
}

#[test]
fn the_broker_of_the_compose_file_is_the_one_of_the_image() {
    let Some(project) = project(&["compose.yaml"]) else { return };
    let service = &project["services"]["qwer-q"];
    let exposed = image("EXPOSE");
    let ports = service["ports"].as_array().expect("it publishes ports");
    for port in ports {
        assert!(exposed.contains(&port["target"].to_string()), "the image does not listen on {port}");
        assert_eq!(port["published"].as_str(), Some(port["target"].to_string().as_str()), "clients look for the usual ports");
    }
    assert_eq!(ports.len(), 2);
    assert_eq!(values(service, "volumes", "target"), image("VOLUME"));
    assert!(root().join(service["build"]["dockerfile"].as_str().expect("it can be built")).is_file());
    let quickstart = text("docs/quickstart.md");
    let name = service["image"].as_str().expect("it has an image");
    assert!(quickstart.contains(&format!(" {name}\n")), "the quickstart runs another image than {name}");

    for variable in service["environment"].as_object().expect("it has variables").keys() {
        assert!(help().contains(&format!("[env: {variable}]")), "`serve` knows no {variable}");
    }
}

/// What `serve` says of itself, on one line.
fn help() -> String {
    let help = Command::new(BINARY).args(["serve", "--help"]).output().expect("the binary runs").stdout;
    String::from_utf8(help).expect("help is text").split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_nodes_of_the_cluster_find_each_other() {
    let Some(project) = project(&["compose.cluster.yaml"]) else { return };
    let services = project["services"].as_object().expect("services");
    let nodes: Vec<_> = services.iter().filter(|(name, _)| name.starts_with("node")).collect();
    assert_eq!(nodes.len(), 3);
    let exposed = image("EXPOSE");
    let mut published = BTreeSet::new();
    for (name, node) in &nodes {
        let environment = node["environment"].as_object().expect("it has variables");
        let value = |variable: &str| environment.get(variable).and_then(Value::as_str);
        assert_eq!(value("QWERQ_CLUSTER_NODE_ID"), name.strip_prefix("node"));
        assert_eq!(value("QWERQ_CLUSTER_ADVERTISE"), Some(name.as_str()));
        assert_eq!(values(node, "volumes", "target"), image("VOLUME"));
        for variable in environment.keys() {
            assert!(help().contains(&format!("[env: {variable}]")), "`serve` knows no {variable}");
        }
        for port in node["ports"].as_array().expect("it publishes ports") {
            assert!(exposed.contains(&port["target"].to_string()), "the image does not listen on {port}");
            assert!(published.insert(port["published"].to_string()), "two nodes publish {port}");
        }
    }
    // One begins the cluster, and names the others.
    let beginners = nodes.iter().filter(|(_, node)| node["environment"].get("QWERQ_CLUSTER_BOOTSTRAP").is_some());
    let [(_, beginner)] = beginners.collect::<Vec<_>>()[..] else { panic!("one node begins the cluster") };
    let peers = beginner["environment"]["QWERQ_CLUSTER_PEERS"].as_str().expect("it names the others");
    assert_eq!(peers, "2=node2:9878,3=node3:9878");
    assert!(exposed.contains(&"9878".to_owned()));
    let brokers = services["client"]["environment"]["QWERQ_BROKER"].as_str().expect("the client knows them");
    assert_eq!(brokers, "node1:9876,node2:9876,node3:9876");
}

#[test]
fn a_token_is_handed_on_and_without_one_the_broker_is_open() {
    let Some(project) = project(&["compose.yaml"]) else { return };
    assert_eq!(project["services"]["qwer-q"]["environment"]["QWERQ_AUTH_TOKEN"], "");
}

#[test]
fn the_monitoring_finds_its_files_and_the_broker() {
    let Some(project) = project(&["compose.yaml", "compose.monitoring.yaml"]) else { return };
    let services = project["services"].as_object().expect("services");
    let mut mounted = BTreeSet::new();
    for (name, service) in services {
        for volume in service["volumes"].as_array().into_iter().flatten() {
            let (source, target) = (volume["source"].as_str().expect("a source"), volume["target"].as_str().expect("a target"));
            mounted.insert(target);
            match volume["type"].as_str() {
                Some("bind") => assert!(Path::new(source).is_file(), "{name} mounts {source}, which is not there"),
                kind => assert!(kind == Some("volume") && project["volumes"].get(source).is_some(), "{name} mounts {source}"),
            }
        }
    }
    let value = |file: &str, key: &str| -> String {
        let text = text(file);
        let found = text.lines().find_map(|line| line.trim().strip_prefix("- ").unwrap_or(line.trim()).strip_prefix(key));
        found.unwrap_or_else(|| panic!("{file} has no {key}")).trim().trim_matches(['[', ']', '"']).to_owned()
    };
    let is_a_port_of_a_service = |address: &str| {
        let (host, port) = address.trim_start_matches("http://").split_once(':').expect("host and port");
        let port: u64 = port.parse().expect("a number");
        let ports = services.get(host).and_then(|service| service["ports"].as_array());
        ports.is_some_and(|ports| ports.iter().any(|open| open["target"] == port))
    };

    let prometheus = "docs/monitoring/prometheus.yml";
    let broker = value(prometheus, "targets:");
    assert!(is_a_port_of_a_service(&broker), "Prometheus looks for the broker at {broker}");
    assert!(text(prometheus).contains("rule_files:\n  - /etc/prometheus/alerts.yml\n") && mounted.contains("/etc/prometheus/alerts.yml"));

    let source = "docs/monitoring/grafana/datasource.yml";
    assert!(is_a_port_of_a_service(&value(source, "url:")), "Grafana looks for Prometheus elsewhere");
    let home = services["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"].as_str().expect("a home dashboard");
    assert!(mounted.contains(home), "{home} is not mounted");
    let folder = value("docs/monitoring/grafana/dashboards.yml", "path:");
    assert!(home.starts_with(&format!("{folder}/")), "Grafana looks for dashboards in {folder}");
}
