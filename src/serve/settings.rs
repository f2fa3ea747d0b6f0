//! What `serve` can be told: one table of settings, and the plain values that they become.
//!
//! It does not know where a value came from (that is `sources.rs`), nor what the broker does with it.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use qwerq_broker::traces::Endpoint;
use qwerq_proto::wire::QueueOptions;

use crate::setting::{Setting, count, one_of};
use crate::{duration, queue_option::QUEUE_OPTIONS};

/// Whether queues without a rule of their own need contracts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SchemaMode {
    /// A queue without a contract accepts any payload.
    Permissive,
    /// A queue needs a contract, and payloads carry known fields only.
    Strict,
}

/// When a publish is acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DurabilityMode {
    /// After fdatasync.
    Fsync,
    /// After the write; synced every `fsync_interval`.
    Interval,
    /// After the write; synced by the kernel.
    None,
}

/// What a broker is started with.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Settings {
    /// TCP port of the protocol; 0 lets the system choose.
    pub(crate) port: u16,
    /// TCP port of HTTP; 0 lets the system choose.
    pub(crate) metrics_port: u16,
    pub(crate) data_dir: PathBuf,
    /// Address that both ports listen on.
    pub(crate) bind: IpAddr,
    pub(crate) schema_mode: SchemaMode,
    /// Wait for more publishes before a commit; zero: none.
    pub(crate) batch_interval: Duration,
    /// None: no token is needed.
    pub(crate) auth_token: Option<String>,
    /// Read into `auth_token` by `sources.rs`.
    pub(crate) auth_token_file: Option<PathBuf>,
    pub(crate) durability: DurabilityMode,
    pub(crate) fsync_interval: Duration,
    /// Whether a first publish or consume makes its queue.
    pub(crate) auto_create: bool,
    /// Further values of the HTTP header Host.
    pub(crate) allowed_hosts: Vec<String>,
    /// Further values of the HTTP header Origin.
    pub(crate) allowed_origins: Vec<String>,
    /// Whether /metrics tells queues apart; none: while there are not too many.
    pub(crate) metrics_per_queue: Option<bool>,
    /// HTTP connections at a time, WebSockets included.
    pub(crate) http_connections: usize,
    /// None: nothing is traced.
    pub(crate) otlp_endpoint: Option<Endpoint>,
    /// Makes the broker a node of a cluster.
    pub(crate) cluster_node_id: Option<u64>,
    /// Address for other nodes to connect to.
    pub(crate) cluster_bind: SocketAddr,
    /// What others are told to connect to, `host` or `host:port`.
    pub(crate) cluster_advertise: Option<String>,
    /// Other nodes and where they are.
    pub(crate) cluster_peers: Vec<(u64, String)>,
    /// Where a node's votes are kept; none: the data directory.
    pub(crate) cluster_data_dir: Option<PathBuf>,
    /// Whether this node begins a cluster.
    pub(crate) cluster_bootstrap: bool,
    /// Defaults for new queues; what is absent has the broker's own default.
    pub(crate) queue_defaults: QueueOptions,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            port: qwerq_proto::BROKER_PORT,
            metrics_port: qwerq_proto::HTTP_PORT,
            data_dir: PathBuf::from("./qwerq-data"),
            bind: IpAddr::V4(Ipv4Addr::LOCALHOST),
            schema_mode: SchemaMode::Permissive,
            batch_interval: Duration::ZERO,
            auth_token: None,
            auth_token_file: None,
            durability: DurabilityMode::Fsync,
            fsync_interval: Duration::from_secs(1),
            auto_create: true,
            allowed_hosts: Vec::new(),
            allowed_origins: Vec::new(),
            metrics_per_queue: None,
            http_connections: 4_096,
            otlp_endpoint: None,
            cluster_node_id: None,
            cluster_bind: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), qwerq_proto::CLUSTER_PORT),
            cluster_advertise: None,
            cluster_peers: Vec::new(),
            cluster_data_dir: None,
            cluster_bootstrap: false,
            queue_defaults: QueueOptions::default(),
        }
    }
}

/// The broker's own settings.
pub(crate) const BROKER_SETTINGS: &[Setting<Settings>] = &[
    Setting {
        flag: "port",
        short: Some('p'),
        value: "PORT",
        default: "9876",
        doc: "TCP port of the broker; 0 takes a free one.",
        set: |s, text| store(&mut s.port, port(text)),
    },
    Setting {
        flag: "metrics-port",
        short: None,
        value: "PORT",
        default: "9877",
        doc: "TCP port of HTTP: health, metrics, REST, dashboard; 0 takes a free one.",
        set: |s, text| store(&mut s.metrics_port, port(text)),
    },
    Setting {
        flag: "data-dir",
        short: None,
        value: "DIR",
        default: "./qwerq-data",
        doc: "Directory that holds everything durable; made if it is not there.",
        set: |s, text| store(&mut s.data_dir, path(text)),
    },
    Setting {
        flag: "bind",
        short: None,
        value: "ADDRESS",
        default: "127.0.0.1",
        doc: "Address to listen on; 0.0.0.0 opens the broker to the network, so set a token too.",
        set: |s, text| store(&mut s.bind, address(text)),
    },
    Setting {
        flag: "schema-mode",
        short: None,
        value: "permissive|strict",
        default: "permissive",
        doc: "strict: every queue needs a contract, and payloads carry known fields only.",
        set: |s, text| store(&mut s.schema_mode, schema_mode(text)),
    },
    Setting {
        flag: "batch-interval",
        short: None,
        value: "DURATION",
        default: "0, off",
        doc: "Wait for more publishes before each commit, trading latency for throughput.",
        set: |s, text| store(&mut s.batch_interval, duration::parse(text)),
    },
    Setting {
        flag: "auth-token",
        short: None,
        value: "TOKEN",
        default: "",
        doc: "Every client must present this token. Prefer the file or the variable: \
              other users of the machine can see a command line.",
        set: |s, text| store(&mut s.auth_token, token(text).map(Some)),
    },
    Setting {
        flag: "auth-token-file",
        short: None,
        value: "FILE",
        default: "",
        doc: "Read the token from this file; line ends around it are cut off.",
        set: |s, text| store(&mut s.auth_token_file, path(text).map(Some)),
    },
    Setting {
        flag: "durability",
        short: None,
        value: "fsync|interval|none",
        default: "fsync",
        doc: "When a publish is acknowledged: after fdatasync, or after the write with a sync \
              every --fsync-interval, or whenever the kernel syncs. A killed process loses nothing \
              in any mode; a power cut loses what was not synced.",
        set: |s, text| store(&mut s.durability, durability(text)),
    },
    Setting {
        flag: "fsync-interval",
        short: None,
        value: "DURATION",
        default: "1s",
        doc: "How often --durability interval syncs.",
        set: |s, text| store(&mut s.fsync_interval, fsync_interval(text)),
    },
    Setting {
        flag: "auto-create",
        short: None,
        value: "true|false",
        default: "true",
        doc: "Whether a first publish or consume makes its queue.",
        set: |s, text| store(&mut s.auto_create, one_of(text, &["true", "false"]).map(|t| t == "true")),
    },
    Setting {
        flag: "allowed-hosts",
        short: None,
        value: "HOST[,HOST...]",
        default: "",
        doc: "Names besides addresses and localhost under which HTTP may be reached without a token.",
        set: |s, text| store(&mut s.allowed_hosts, list(text)),
    },
    Setting {
        flag: "allowed-origins",
        short: None,
        value: "ORIGIN[,ORIGIN...]",
        default: "",
        doc: "Origins of other sites whose pages may use HTTP and WebSocket.",
        set: |s, text| store(&mut s.allowed_origins, list(text)),
    },
    Setting {
        flag: "metrics-per-queue",
        short: None,
        value: "auto|true|false",
        default: "auto",
        doc: "Whether /metrics tells queues and groups apart or adds them up; auto: apart up to 1,000 queues.",
        set: |s, text| store(&mut s.metrics_per_queue, metrics_per_queue(text)),
    },
    Setting {
        flag: "http-connections",
        short: None,
        value: "NUMBER",
        default: "4096",
        doc: "HTTP connections at a time, WebSockets included; who comes beyond it waits until one ends.",
        set: |s, text| store(&mut s.http_connections, connections(text)),
    },
    Setting {
        flag: "otlp-endpoint",
        short: None,
        value: "URL",
        default: "",
        doc: "Collector that gets OpenTelemetry traces by OTLP over HTTP, such as http://localhost:4318; only messages whose header \
              traceparent says that they are sampled are traced.",
        set: |s, text| store(&mut s.otlp_endpoint, text.parse().map(Some)),
    },
    Setting {
        flag: "cluster-node-id",
        short: None,
        value: "NUMBER",
        default: "",
        doc: "Preview: makes the broker a node of a cluster, with this number, unlike all others'; see docs/clustering.md.",
        set: |s, text| store(&mut s.cluster_node_id, count(text).map(Some)),
    },
    Setting {
        flag: "cluster-bind",
        short: None,
        value: "ADDRESS:PORT",
        default: "0.0.0.0:9878",
        doc: "Where a node listens for other nodes; keep it away from strangers, or set a token.",
        set: |s, text| store(&mut s.cluster_bind, socket_address(text)),
    },
    Setting {
        flag: "cluster-advertise",
        short: None,
        value: "HOST[:PORT]",
        default: "",
        doc: "Where other nodes reach this one; its host is also what clients are sent to. Needed unless --cluster-bind names one address.",
        set: |s, text| store(&mut s.cluster_advertise, advertised(text).map(Some)),
    },
    Setting {
        flag: "cluster-peers",
        short: None,
        value: "ID=HOST:PORT[,...]",
        default: "",
        doc: "Other nodes. With --cluster-bootstrap they are taken up when the cluster begins; otherwise they say where nodes are reached \
              that have moved.",
        set: |s, text| store(&mut s.cluster_peers, peers(text)),
    },
    Setting {
        flag: "cluster-data-dir",
        short: None,
        value: "DIR",
        default: "",
        doc: "Directory for what a node has voted, if not the data directory.",
        set: |s, text| store(&mut s.cluster_data_dir, path(text).map(Some)),
    },
    Setting {
        flag: "cluster-bootstrap",
        short: None,
        value: "true|false",
        default: "false",
        doc: "Begins a cluster with this node, and with the data that it has; on a node that is in one it does nothing.",
        set: |s, text| store(&mut s.cluster_bootstrap, one_of(text, &["true", "false"]).map(|t| t == "true")),
    },
];

/// The queue options that `serve` takes as defaults for new queues: all but `schema-mode`, which is the broker's own.
pub(crate) fn queue_default_settings() -> impl Iterator<Item = &'static Setting<QueueOptions>> {
    QUEUE_OPTIONS.iter().filter(|option| BROKER_SETTINGS.iter().all(|setting| setting.flag != option.flag))
}

fn store<V>(field: &mut V, value: Result<V, String>) -> Result<(), String> {
    *field = value?;
    Ok(())
}

fn port(text: &str) -> Result<u16, String> {
    text.parse().map_err(|_| format!("'{text}' is no port from 0 to 65535"))
}

fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("the path is empty".to_owned()) } else { Ok(PathBuf::from(text)) }
}

fn address(text: &str) -> Result<IpAddr, String> {
    if text == "localhost" {
        return Ok(IpAddr::V4(Ipv4Addr::LOCALHOST));
    }
    text.parse().map_err(|_| format!("'{text}' is no IP address, such as 127.0.0.1 or 0.0.0.0"))
}

fn socket_address(text: &str) -> Result<SocketAddr, String> {
    text.parse().map_err(|_| format!("'{text}' is no address with a port, such as 0.0.0.0:9878"))
}

fn advertised(text: &str) -> Result<String, String> {
    if text.is_empty() || text.contains('/') {
        return Err(format!("'{text}' is no host, such as broker-1.example or 10.0.0.1:9878"));
    }
    Ok(text.to_owned())
}

fn peers(text: &str) -> Result<Vec<(u64, String)>, String> {
    let wrong = |part: &str| format!("'{part}' is no node; write it as 2=broker-2.example:9878");
    list(text)?
        .into_iter()
        .map(|part| {
            let (id, address) = part.split_once('=').ok_or_else(|| wrong(&part))?;
            let port = address.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
            port.ok_or_else(|| wrong(&part))?;
            Ok((count(id).map_err(|_| wrong(&part))?, address.to_owned()))
        })
        .collect()
}

fn schema_mode(text: &str) -> Result<SchemaMode, String> {
    Ok(match one_of(text, &["permissive", "strict"])?.as_str() {
        "strict" => SchemaMode::Strict,
        _ => SchemaMode::Permissive,
    })
}

fn durability(text: &str) -> Result<DurabilityMode, String> {
    Ok(match one_of(text, &["fsync", "interval", "none"])?.as_str() {
        "none" => DurabilityMode::None,
        "interval" => DurabilityMode::Interval,
        _ => DurabilityMode::Fsync,
    })
}

fn connections(text: &str) -> Result<usize, String> {
    text.parse().ok().filter(|number| *number > 0).ok_or_else(|| format!("'{text}' is no number of connections, which is at least 1"))
}

fn metrics_per_queue(text: &str) -> Result<Option<bool>, String> {
    Ok(match one_of(text, &["auto", "true", "false"])?.as_str() {
        "auto" => None,
        other => Some(other == "true"),
    })
}

fn fsync_interval(text: &str) -> Result<Duration, String> {
    match duration::parse(text)? {
        Duration::ZERO => Err("it must be longer than 0; --durability fsync syncs always".into()),
        interval => Ok(interval),
    }
}

/// An empty token would look like protection and be none.
pub(super) fn token(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("the token is empty".to_owned()) } else { Ok(text.to_owned()) }
}

fn list(text: &str) -> Result<Vec<String>, String> {
    Ok(text.split(',').map(str::trim).filter(|part| !part.is_empty()).map(str::to_owned).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_in_the_help_are_the_defaults_in_force() {
        for setting in BROKER_SETTINGS {
            let default = setting.default.split(',').next().unwrap_or_default();
            if default.is_empty() {
                continue;
            }
            let mut settings = Settings::default();
            (setting.set)(&mut settings, default).expect(setting.flag);
            assert_eq!(settings, Settings::default(), "{}", setting.flag);
        }
    }

    #[test]
    fn no_flag_is_defined_twice() {
        let mut flags: Vec<_> = BROKER_SETTINGS.iter().map(|setting| setting.flag).collect();
        flags.extend(queue_default_settings().map(|option| option.flag));
        let count = flags.len();
        flags.sort_unstable();
        flags.dedup();
        assert_eq!(flags.len(), count);
        assert_eq!(count, 22 + 19);
    }

    #[test]
    fn wrong_values_are_refused() {
        for (flag, text) in [
            ("port", "65536"),
            ("port", "tcp://10.0.0.1:9876"),
            ("bind", "example.org"),
            ("data-dir", ""),
            ("durability", "sync"),
            ("fsync-interval", "0"),
            ("auto-create", "yes"),
            ("auth-token", ""),
            ("otlp-endpoint", "https://collector.example"),
            ("cluster-node-id", "0"),
            ("cluster-node-id", "one"),
            ("cluster-bind", "9878"),
            ("cluster-advertise", "http://broker-1:9878"),
            ("cluster-peers", "broker-2:9878"),
            ("cluster-peers", "2=broker-2"),
        ] {
            let setting = BROKER_SETTINGS.iter().find(|s| s.flag == flag).expect("a known flag");
            assert!((setting.set)(&mut Settings::default(), text).is_err(), "{flag} {text}");
        }
    }
}
