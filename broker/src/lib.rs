//! The QWER-Q broker around the pure core: sockets, journal, store, registry, HTTP.
//!
//! docs/architecture.md has the map; a message's life begins in `net/`.

pub mod registry;
