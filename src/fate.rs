//! What `consume` does with each message once its line was written: acknowledges it, or something else that was asked for.

use std::time::Duration;

use clap::Args;
use qwerq::Settlement;

use crate::duration;

#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "What becomes of each message")]
pub(crate) struct FateArgs {
    /// Acknowledge it, which is the default
    #[arg(long, group = "fate")]
    ack: bool,
    /// Put it back, to be delivered again after the queue's retry_backoff
    #[arg(long, group = "fate")]
    nack: bool,
    /// With --nack: deliver it again after so long; 0 is at once
    #[arg(long, value_name = "DURATION", requires = "nack", value_parser = duration::parse)]
    delay: Option<Duration>,
    /// Send it to failure handling at once, for this reason: to the dead letters, where the queue keeps them
    #[arg(long, value_name = "REASON", group = "fate")]
    reject: Option<String>,
    /// Leave it leased until its visibility timeout; its line has the lease_id
    #[arg(long, group = "fate")]
    leave: bool,
}

/// What becomes of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Fate {
    /// It is settled like this.
    Settled(Settlement),
    /// Its lease runs.
    Left,
}

impl FateArgs {
    pub(crate) fn fate(&self) -> Fate {
        match (&self.reject, self.nack, self.leave) {
            (Some(reason), _, _) => Fate::Settled(Settlement::Reject { reason: reason.clone() }),
            (None, true, _) => Fate::Settled(Settlement::Nack { delay: self.delay, reason: String::new() }),
            (None, false, true) => Fate::Left,
            (None, false, false) => Fate::Settled(Settlement::Ack),
        }
    }
}
