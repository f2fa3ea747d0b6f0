//! Memory and disk: idle, with messages queued, and how soon the broker is back after a kill with them.

use std::time::Duration;

use super::load::{Load, Sample, Until};
use super::process::{BrokerProcess, Launch};
use super::publish;
use super::target::Target;
use crate::failure::Failure;

/// What was measured; bytes unless the name says otherwise.
pub(super) struct Memory {
    /// Resident, on an empty directory, before any client.
    pub(super) idle: u64,
    /// Files of an empty directory.
    pub(super) empty_files: u64,
    /// Messages queued when the rest was measured.
    pub(super) queued: u64,
    /// Anonymous memory: what the broker allocated, without mapped files that the kernel may drop.
    pub(super) queued_anonymous: u64,
    /// Files with them.
    pub(super) queued_files: u64,
    pub(super) ready_after_kill: Duration,
}

/// Fills one queue with `messages` messages on a broker of its own.
pub(super) async fn run(launch: &Launch, load: &Load, sample: &Sample, messages: u64) -> Result<Memory, Failure> {
    let mut broker = BrokerProcess::start(launch)?;
    let idle = broker.memory_bytes("VmRSS")?;
    let empty_files = broker.file_bytes()?;
    let target = Target { address: broker.address(), http_address: Some(broker.http_address()), token: None };
    let load = Load { queues: 1, connections: 1, rate: None, until: Until::Messages(messages), ..load.clone() };
    load.prepare(&target, sample, true).await?;
    let client = target.connect(load.window).await?;
    publish::publish(&[client], &load, sample).await?;
    let queued_anonymous = broker.memory_bytes("RssAnon")?;
    let queued_files = broker.file_bytes()?;
    let ready_after_kill = broker.crash_and_restart()?;
    let queued = depth(&target, &load.queue_names()[0]).await?;
    if queued != messages {
        return Err(Failure::failed(format!("{messages} messages were acknowledged, {queued} are there after a kill and a restart")));
    }
    Ok(Memory { idle, empty_files, queued, queued_anonymous, queued_files, ready_after_kill })
}

async fn depth(target: &Target, queue: &str) -> Result<u64, Failure> {
    let client = target.connect(1).await?;
    let info = client.queue_info(queue).await?;
    client.close().await?;
    Ok(info.depth)
}
