//! `gen --watch`: generates again when something that the output is made from has changed.
//!
//! Files and the registry are looked at in turns: a look is cheap, works on every file system, and also sees a queue that was deleted, of
//! which SCHEMA_CHANGED says nothing. What goes wrong in a run is reported, and the next change is waited for.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use qwerq::Client;

use super::plan::{self, Plan};
use super::{RunArgs, generate};
use crate::broker;
use crate::failure::Failure;
use crate::output;

/// Between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// What the last run was made from.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// With time and length, of those that are there.
    files: Vec<(PathBuf, Option<(SystemTime, u64)>)>,
    /// Queue, version, and whether the broker could be asked.
    contracts: Result<Vec<(String, u32)>, String>,
}

pub(super) fn run(args: &RunArgs) -> Result<(), Failure> {
    // Without a qwerq.toml there is nothing to watch; a wrong one can be corrected.
    if !args.config.config.exists() {
        plan::config(&args.config.config)?;
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start the runtime: {error}")))?;
    let (mut client, mut last) = (None, None);
    loop {
        let seen = runtime.block_on(look(args, &mut client));
        if last.as_ref() != Some(&seen) {
            match generate(args) {
                Err(failure) if failure.is_silent() => return Err(failure),
                Err(failure) => output::note(failure.report().trim_end()),
                Ok(()) => {}
            }
            last = Some(seen);
        }
        runtime.block_on(async { tokio::time::sleep(PAUSE).await });
    }
}

async fn look(args: &RunArgs, client: &mut Option<Client>) -> Seen {
    let plan = plan::config(&args.config.config).and_then(|config| Plan::of_config(&config, false));
    let mut files = vec![args.config.config.clone()];
    let contracts = match plan.map(|plan| plan.proto_files()) {
        Ok(Some(protos)) => {
            files.extend(protos);
            Ok(Vec::new())
        }
        Ok(None) => ask(args, client).await,
        Err(failure) => Err(failure.report()),
    };
    Seen { files: files.into_iter().map(|path| (path.clone(), stamp(&path))).collect(), contracts }
}

/// The broker's active contracts; a connection that fails is made anew at the next look.
async fn ask(args: &RunArgs, client: &mut Option<Client>) -> Result<Vec<(String, u32)>, String> {
    let connected = match client.take() {
        Some(connected) => connected,
        None => args.broker.connect().await.map_err(|failure| failure.report())?,
    };
    let listed = connected.list_schemas().await.map_err(|error| broker::failure(error, None).report())?;
    *client = Some(connected);
    Ok(listed.into_iter().map(|version| (version.queue, version.version)).collect())
}

fn stamp(path: &Path) -> Option<(SystemTime, u64)> {
    let metadata = path.metadata().ok()?;
    Some((metadata.modified().ok()?, metadata.len()))
}
