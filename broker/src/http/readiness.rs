//! Whether the broker takes requests: what /readyz answers.

use std::sync::atomic::{AtomicU8, Ordering};

const STARTING: u8 = 0;
const READY: u8 = 1;
const DRAINING: u8 = 2;

/// Starting, then ready, then draining; it never goes back.
#[derive(Debug, Default)]
pub struct Readiness {
    phase: AtomicU8,
}

impl Readiness {
    /// A broker that is starting.
    #[must_use]
    pub fn new() -> Readiness {
        Readiness::default()
    }

    /// Recovery is done and the broker port accepts. Without effect on a broker that already drains.
    pub fn set_ready(&self) {
        self.phase.fetch_max(READY, Ordering::Release);
    }

    /// The broker takes nothing new.
    pub fn set_draining(&self) {
        self.phase.fetch_max(DRAINING, Ordering::Release);
    }

    /// Why the broker is not ready, or `None` when it is.
    #[must_use]
    pub fn refusal(&self) -> Option<&'static str> {
        match self.phase.load(Ordering::Acquire) {
            STARTING => Some("starting"),
            READY => None,
            _ => Some("draining"),
        }
    }
}
