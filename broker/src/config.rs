//! What a broker is started with. The command line fills it in; nothing in here reads flags, files or variables.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use qwerq_core::QueueOptions;
use qwerq_core::options::SchemaMode;

use crate::cluster::Address;
use crate::traces::Endpoint;

/// When an acknowledged message is on the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// Before the publish is acknowledged.
    Fsync,
    /// Within an interval; a power loss costs at most that much.
    Interval(Duration),
    /// When the kernel writes it back; a killed process still loses nothing.
    None,
}

/// Set-up of one broker.
#[derive(Debug, Clone)]
pub struct Config {
    /// Address that all ports listen on.
    pub bind: IpAddr,
    /// Port of the binary protocol; 0: any free one.
    pub port: u16,
    /// Port of HTTP; 0: any free one.
    pub http_port: u16,
    /// Where everything durable lives.
    pub data_dir: PathBuf,
    /// Whether queues without a mode of their own accept messages without a contract.
    pub schema_mode: SchemaMode,
    /// How long a commit waits for company; zero: not at all.
    pub batch_interval: Duration,
    /// Closes every port to whoever does not present it.
    pub auth_token: Option<String>,
    /// When an acknowledged message is on the disk.
    pub durability: Durability,
    /// Whether a first publish or consume creates a queue.
    pub auto_create: bool,
    /// Host names that HTTP answers to besides addresses and localhost.
    pub allowed_hosts: Vec<String>,
    /// Origins that may use HTTP and WebSocket from a browser.
    pub allowed_origins: Vec<String>,
    /// Whether /metrics tells queues apart; `None`: while there are not too many.
    pub metrics_per_queue: Option<bool>,
    /// HTTP connections at a time, WebSockets included.
    pub http_connections: usize,
    /// Where spans of traces go; `None`: nothing is traced.
    pub otlp_endpoint: Option<Endpoint>,
    /// Options of queues that are created without their own.
    pub queue_defaults: QueueOptions,
    /// The cluster that this broker is a node of; `None`: it runs alone.
    pub cluster: Option<ClusterConfig>,
}

/// What makes a broker a node of a cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Its number, unlike all others'.
    pub node_id: u64,
    /// Where it listens for other nodes; port 0: any free one.
    pub bind: SocketAddr,
    /// Where others reach it, `host` or `host:port`; the host is also what clients are told.
    pub advertise: Option<String>,
    /// Other nodes: what their numbers are and where they are reached.
    pub peers: Vec<(u64, String)>,
    /// Where its votes are kept.
    pub dir: PathBuf,
    /// Whether it begins the cluster, if it is in none.
    pub bootstrap: bool,
}

impl ClusterConfig {
    /// Where this node is reached, given the ports that it has got.
    pub(crate) fn address(&self, raft: u16, client: u16, http: u16) -> Address {
        let advertised = self.advertise.clone().unwrap_or_else(|| match self.bind.ip() {
            IpAddr::V6(ip) => format!("[{ip}]"),
            IpAddr::V4(ip) => ip.to_string(),
        });
        // A colon within brackets is an IPv6 address's.
        let (host, port) = match advertised.rsplit_once(':') {
            Some((host, port)) if !port.contains(']') => (host.to_owned(), port.parse().unwrap_or(raft)),
            _ => (advertised, raft),
        };
        Address { raft: format!("{host}:{port}"), client: format!("{host}:{client}"), http: format!("{host}:{http}") }
    }
}

/// Largest publish window of a connection, in requests.
pub const PUBLISH_WINDOW_REQUESTS: u32 = 1_024;

/// Largest publish window of a connection, in bytes.
pub const PUBLISH_WINDOW_BYTES: u32 = 32 * 1024 * 1024;

/// How often either side of a connection shows a sign of life; silence of twice that ends it.
pub const HEARTBEAT: Duration = Duration::from_secs(10);

/// How long a new connection may take to say HELLO.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(5);
