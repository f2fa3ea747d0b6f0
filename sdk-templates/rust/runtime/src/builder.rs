//! How to connect: addresses, identity, windows, patience. Ends in a [`Client`]; the connection itself lives in `driver`.

use std::fmt;
use std::time::Duration;

use crate::client::Client;
use crate::dial::Dial;
use crate::error::Error;
use crate::route;

/// Settings of a client, from [`Client::builder`].
#[derive(Debug, Clone)]
pub struct ClientBuilder {
    pub(crate) addresses: Vec<String>,
    pub(crate) token: Token,
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) publish_window: usize,
    pub(crate) publish_window_bytes: usize,
    pub(crate) heartbeat: Option<Duration>,
    pub(crate) connect_timeout: Duration,
    pub(crate) max_lease: Duration,
    pub(crate) reconnect: Reconnect,
    pub(crate) dial: Dial,
    pub(crate) any_node: bool,
}

/// A secret that is never printed.
#[derive(Clone)]
pub(crate) struct Token(pub(crate) String);

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "none" } else { "secret" })
    }
}

/// How a client behaves when its connection is lost: exponential backoff with full jitter, so that many clients do not come back at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reconnect {
    /// The first wait is between 0 and this.
    pub first: Duration,
    /// Later waits are between 0 and at most this.
    pub max: Duration,
    /// Consecutive attempts before the client closes with [`Error::Connect`]; `None`: never.
    pub attempts: Option<u32>,
}

impl Default for Reconnect {
    fn default() -> Reconnect {
        Reconnect { first: Duration::from_millis(100), max: Duration::from_secs(10), attempts: None }
    }
}

impl Reconnect {
    /// A lost connection closes the client.
    #[must_use]
    pub fn never() -> Reconnect {
        Reconnect { attempts: Some(0), ..Reconnect::default() }
    }
}

impl ClientBuilder {
    pub(crate) fn new(address: String) -> ClientBuilder {
        ClientBuilder {
            addresses: route::addresses(&address).collect(),
            token: Token(String::new()),
            name: env!("CARGO_PKG_NAME").to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            publish_window: 1024,
            publish_window_bytes: 16 * 1024 * 1024,
            heartbeat: None,
            connect_timeout: Duration::from_secs(5),
            max_lease: Duration::from_secs(12 * 60 * 60),
            reconnect: Reconnect::default(),
            dial: Dial::tcp(),
            any_node: false,
        }
    }

    /// More nodes of the cluster: any one that answers leads to the one that serves. One address, or several with commas in between.
    #[must_use]
    pub fn address(mut self, address: impl Into<String>) -> ClientBuilder {
        self.addresses.extend(route::addresses(&address.into()));
        self
    }

    /// Stays with whichever node of a cluster answers. One that does not lead answers questions about the cluster only; see
    /// [`Client::cluster_status`].
    #[must_use]
    pub fn any_node(mut self) -> ClientBuilder {
        self.any_node = true;
        self
    }

    /// The broker's auth token. Default: none.
    #[must_use]
    pub fn token(mut self, token: impl Into<String>) -> ClientBuilder {
        self.token = Token(token.into());
        self
    }

    /// The name that the broker shows for this client. Default: `qwerq`.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> ClientBuilder {
        self.name = name.into();
        self
    }

    /// The version that the broker shows for this client. Default: this crate's.
    #[must_use]
    pub fn version(mut self, version: impl Into<String>) -> ClientBuilder {
        self.version = version.into();
        self
    }

    /// Messages that may be published and not yet acknowledged; beyond it publishers wait. Default: 1,024.
    #[must_use]
    pub fn publish_window(mut self, messages: usize) -> ClientBuilder {
        self.publish_window = messages.max(1);
        self
    }

    /// Payload bytes that may be published and not yet acknowledged; beyond it publishers wait. Default: 16 MiB.
    #[must_use]
    pub fn publish_window_bytes(mut self, bytes: usize) -> ClientBuilder {
        self.publish_window_bytes = bytes.max(1);
        self
    }

    /// How often this side says something at least. Default, and at most: what the broker says (10 s). The broker's silence is judged by
    /// its own interval: twice that ends the connection.
    #[must_use]
    pub fn heartbeat(mut self, interval: Duration) -> ClientBuilder {
        self.heartbeat = Some(interval);
        self
    }

    /// How long one attempt to connect may take, HELLO included. Default: 5 s.
    #[must_use]
    pub fn connect_timeout(mut self, timeout: Duration) -> ClientBuilder {
        self.connect_timeout = timeout;
        self
    }

    /// How long a lease is renewed at most, from its delivery; then the message goes back to the queue. Default: 12 h.
    #[must_use]
    pub fn max_lease(mut self, limit: Duration) -> ClientBuilder {
        self.max_lease = limit;
        self
    }

    /// What to do when the connection is lost. Default: come back for ever.
    #[must_use]
    pub fn reconnect(mut self, policy: Reconnect) -> ClientBuilder {
        self.reconnect = policy;
        self
    }

    /// Opens connections by `dial` instead of TCP: through a proxy, or to a broker in the same process.
    #[must_use]
    pub fn dial(mut self, dial: Dial) -> ClientBuilder {
        self.dial = dial;
        self
    }

    /// Connects and says HELLO. Tries each address once, in random order, and goes to the leader that a node names; while a cluster has no
    /// leader it keeps trying for ten seconds.
    ///
    /// # Errors
    /// [`Error::Connect`] when no broker answers, or none that leads; [`Error::Refused`] when one does but refuses the token; [`Error::Protocol`] when it
    /// shares no protocol version with this client.
    pub async fn connect(self) -> Result<Client, Error> {
        Client::connect_with(self).await
    }
}
