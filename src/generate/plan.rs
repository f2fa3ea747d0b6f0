//! What a run is about: which outputs, from which contracts, beside which lock. Flags say it, or qwerq.toml.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use qwerq_codegen::config::{CONFIG, Config};
use qwerq_codegen::lock::{LOCK, Lock, LockError};

use super::contracts::{self, Contracts};
use super::target::Target;
use super::{RunArgs, failure};
use crate::broker::{self, BrokerArgs};
use crate::failure::Failure;

/// One run.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) targets: Vec<Target>,
    source: Source,
    /// The folder of qwerq.lock.
    pub(super) folder: PathBuf,
    /// Whether the lock belongs to what is written and compared.
    pub(super) keeps_lock: bool,
}

#[derive(Debug)]
enum Source {
    Broker,
    Lock,
    Folder { dir: PathBuf, includes: Vec<PathBuf>, queues: Config },
}

impl Plan {
    pub(super) fn of(args: &RunArgs) -> Result<Plan, Failure> {
        let folder = folder_of(&args.config.config);
        if let (Some(lang), Some(out)) = (args.lang, &args.out) {
            let source = match &args.from {
                _ if args.locked => Source::Lock,
                Some(dir) => Source::Folder { dir: dir.clone(), includes: args.includes.clone(), queues: queues_of(dir)? },
                None => Source::Broker,
            };
            return Ok(Plan { targets: vec![Target::of_flags(args, lang, out)?], source, folder, keeps_lock: false });
        }
        if let Some(config) = read(&args.config.config)? {
            return Plan::of_config(&config, args.locked || args.check);
        }
        if args.emit_proto.is_none() {
            return Err(no_config(&args.config.config));
        }
        let source = if args.locked { Source::Lock } else { Source::Broker };
        Ok(Plan { targets: Vec::new(), source, folder, keeps_lock: false })
    }

    /// What qwerq.toml asks for; `offline` when no broker may be asked.
    pub(super) fn of_config(config: &Config, offline: bool) -> Result<Plan, Failure> {
        let targets = config.outputs().iter().map(|output| Target::of_config(config, output)).collect::<Result<Vec<_>, _>>()?;
        let mut folders = BTreeSet::new();
        if let Some(twice) = targets.iter().find(|target| !folders.insert(&target.out)) {
            let failure = Failure::usage(format!("two [[output]] write to {}", twice.out.display()));
            return Err(failure.next_step("give each its own `out`"));
        }
        let source = match config.from() {
            Some(dir) => {
                let queues = if config.names_queues() { config.clone() } else { queues_of(&dir)? };
                Source::Folder { dir, includes: config.includes(), queues }
            }
            None if offline => Source::Lock,
            None => Source::Broker,
        };
        Ok(Plan { targets, source, folder: config.folder().to_owned(), keeps_lock: true })
    }

    /// Whether the contracts are those of a folder of .proto files.
    pub(super) fn is_schema_first(&self) -> bool {
        matches!(self.source, Source::Folder { .. })
    }

    /// The contracts that the run works on.
    pub(super) fn contracts(&self, broker: &BrokerArgs) -> Result<Contracts, Failure> {
        match &self.source {
            Source::Broker => broker::block_on(contracts::of_broker(broker, |queue| self.wants(queue))),
            Source::Lock => contracts::of_lock(&self.lock()?),
            Source::Folder { dir, includes, queues } => {
                // A lock that cannot be read knows no version numbers; what is written replaces it, and `--check` shows the difference.
                let known = if self.keeps_lock { Lock::read(&self.folder).ok().flatten().unwrap_or_default() } else { Lock::default() };
                contracts::of_folder(dir, includes, queues, &known)
            }
        }
    }

    /// The files besides qwerq.toml that the contracts are made from; `None`: they are a broker's.
    pub(super) fn proto_files(&self) -> Option<Vec<PathBuf>> {
        let Source::Folder { dir, includes, .. } = &self.source else { return None };
        // A folder that cannot be listed is an error of the run that follows, not of looking for changes.
        let listed = std::iter::once(dir).chain(includes).filter_map(|dir| qwerq_codegen::folder::files(dir).ok());
        Some(listed.flatten().chain([dir.join(CONFIG)]).collect())
    }

    /// Whether some output has a client for the queue.
    pub(super) fn wants(&self, queue: &str) -> bool {
        self.targets.is_empty() || self.targets.iter().any(|target| target.wants(queue))
    }

    /// The lock, which must be there.
    pub(super) fn lock(&self) -> Result<Lock, Failure> {
        let lock = Lock::read(&self.folder).map_err(|error| lock_failure(&error))?;
        lock.ok_or_else(|| {
            Failure::failed(format!("there is no {}", self.folder.join(LOCK).display()))
                .next_step("run `qwer-q gen` with a qwerq.toml once, and commit what it writes")
        })
    }
}

/// qwerq.toml, which must be there.
pub(super) fn config(path: &Path) -> Result<Config, Failure> {
    read(path)?.ok_or_else(|| no_config(path))
}

pub(super) fn lock_failure(error: &LockError) -> Failure {
    let failure = Failure::failed(error.to_string());
    match error {
        LockError::Io { .. } => failure,
        LockError::Broken { .. } => failure.next_step("restore both files from version control, or make them anew with `qwer-q gen`"),
    }
}

fn read(path: &Path) -> Result<Option<Config>, Failure> {
    Config::read(path).map_err(|found| Failure::usage(format!("{} is wrong", path.display())).context(found.to_string()))
}

fn queues_of(dir: &Path) -> Result<Config, Failure> {
    Ok(Config::read(&dir.join(CONFIG)).map_err(|found| failure(&found))?.unwrap_or_default())
}

fn no_config(path: &Path) -> Failure {
    Failure::usage(format!("there is no {}, so nothing says what to generate", path.display()))
        .next_step("name --lang and --out, or write a qwerq.toml with `[[output]]`, `lang = \"rust\"` and `out = \"src/queues\"`")
}

fn folder_of(config: &Path) -> PathBuf {
    config.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new(".")).to_owned()
}
