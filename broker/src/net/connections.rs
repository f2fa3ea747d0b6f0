//! Who is connected, for operators. A connection enters itself when it has said HELLO; nothing is looked up here on the way of a message.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use qwerq_core::SessionId;

/// The connections of a broker.
#[derive(Debug, Default)]
pub struct Connections {
    open: Mutex<BTreeMap<SessionId, ConnectionInfo>>,
}

/// One connection.
#[derive(Debug, Clone)]
pub struct ConnectionInfo {
    /// Its number in this process.
    pub session: SessionId,
    /// Address and port of the other side.
    pub peer: String,
    /// What the client calls itself.
    pub client: String,
    /// When it said HELLO.
    pub since: SystemTime,
}

/// A connection's entry, which goes with it.
#[derive(Debug)]
pub(super) struct Entry {
    connections: Arc<Connections>,
    session: SessionId,
}

impl Connections {
    /// Every connection, oldest first.
    #[must_use]
    pub fn list(&self) -> Vec<ConnectionInfo> {
        self.lock().values().cloned().collect()
    }

    pub(super) fn enter(self: &Arc<Connections>, session: SessionId, peer: &str, client: &str) -> Entry {
        let info = ConnectionInfo { session, peer: peer.to_owned(), client: client.to_owned(), since: SystemTime::now() };
        self.lock().insert(session, info);
        Entry { connections: Arc::clone(self), session }
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<SessionId, ConnectionInfo>> {
        // Nothing in here can be half done.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        self.connections.lock().remove(&self.session);
    }
}
