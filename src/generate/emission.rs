//! The files of a run, compiled in memory before the first is touched: written, compared, or shown.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use qwerq_codegen::contract::Request;
use qwerq_codegen::lock::Lock;
use qwerq_codegen::output::{Output as Generated, Stale};

use super::contracts::Contracts;
use super::plan::{Plan, lock_failure};
use super::target::Target;
use super::{failure, warn};
use crate::failure::Failure;
use crate::output::Output;

/// Everything that a run would write.
pub(super) struct Emission {
    outputs: Vec<(PathBuf, Generated)>,
    /// The lock and its folder, where it belongs to the run.
    lock: Option<(PathBuf, Lock)>,
    schema_first: bool,
}

impl Emission {
    pub(super) fn compile(plan: &Plan, contracts: &Contracts) -> Result<Emission, Failure> {
        let mut outputs = Vec::with_capacity(plan.targets.len());
        let mut said = BTreeSet::new();
        for target in &plan.targets {
            let mut generated = qwerq_codegen::generate(&request(target, contracts)?).map_err(|found| failure(&found))?;
            // Several outputs have the same to say of one schema.
            generated.warnings.0.retain(|warning| said.insert(warning.to_string()));
            warn(&generated.warnings);
            outputs.push((target.out.clone(), generated));
        }
        let lock = plan.keeps_lock.then(|| (plan.folder.clone(), Lock::new(contracts.contracts.clone())));
        Ok(Emission { outputs, lock, schema_first: plan.is_schema_first() })
    }

    /// Writes what differs, the lock last: it speaks of code that is there.
    pub(super) fn write(&self) -> Result<(), Failure> {
        let mut output = Output::stdout();
        let (mut written, mut removed, mut unchanged) = (0, 0, 0);
        for (out, generated) in &self.outputs {
            let done = generated.write(out).map_err(|error| Failure::failed(error.to_string()))?;
            for path in &done.written {
                output.line(format!("wrote {}", out.join(path).display()))?;
            }
            for path in &done.removed {
                output.line(format!("removed {}", out.join(path).display()))?;
            }
            written += done.written.len();
            removed += done.removed.len();
            unchanged += done.unchanged;
        }
        if let Some((folder, lock)) = &self.lock {
            let names = lock.write(folder).map_err(|error| lock_failure(&error))?;
            for name in &names {
                output.line(format!("wrote {}", shown(folder, name)))?;
            }
            written += names.len();
            unchanged += 2 - names.len();
        }
        output.line(format!("{written} written, {removed} removed, {unchanged} unchanged"))?;
        output.flush()
    }

    /// Writes what differs, unless the lock would.
    pub(super) fn write_locked(&self) -> Result<(), Failure> {
        let stale = self.stale_lock()?;
        if stale.is_empty() {
            return self.write();
        }
        let failure = Failure::failed("qwerq.lock would change, which --locked forbids");
        let failure = stale.iter().map(Stale::to_string).fold(failure, Failure::context);
        Err(failure.next_step("run `qwer-q gen` without --locked, and commit what it writes"))
    }

    /// Fails with the differences between what is there and what would be written.
    pub(super) fn check(&self) -> Result<(), Failure> {
        let mut stale = Vec::new();
        let mut output = Output::stdout();
        let found = self.stale_lock()?;
        match (&self.lock, found.is_empty()) {
            (Some((folder, _)), true) => output.line(format!("{} is up to date", shown(folder, qwerq_codegen::lock::LOCK)))?,
            (Some(_), false) => stale.push(("qwerq.lock".to_owned(), found)),
            (None, _) => {}
        }
        for (out, generated) in &self.outputs {
            let found = generated.check(out).map_err(|error| Failure::failed(error.to_string()))?;
            match found.is_empty() {
                true => output.line(format!("{} is up to date", out.display()))?,
                false => stale.push((out.display().to_string(), found)),
            }
        }
        output.flush()?;
        let names: Vec<&str> = stale.iter().map(|(name, _)| name.as_str()).collect();
        let failure = match names.as_slice() {
            [] => return Ok(()),
            [one] => Failure::failed(format!("{one} is stale")),
            several => Failure::failed(format!("{} are stale", several.join(" and "))),
        };
        let failure = stale.iter().flat_map(|(_, found)| found).map(Stale::to_string).fold(failure, Failure::context);
        Err(failure.next_step(match (&self.lock, self.schema_first) {
            (Some(_), false) => "run `qwer-q gen --locked` (or `qwer-q gen`, if the contracts are newer), and commit what it writes",
            _ => "run the same command without --check, and commit what it writes",
        }))
    }

    /// Shows what would be written and removed, with a diff where something is there.
    pub(super) fn preview(&self) -> Result<(), Failure> {
        let mut output = Output::stdout();
        let mut stale = Vec::new();
        for (out, generated) in &self.outputs {
            let found = generated.check(out).map_err(|error| Failure::failed(error.to_string()))?;
            stale.extend(found.into_iter().map(|one| (out.as_path(), one)));
        }
        if let Some((folder, _)) = &self.lock {
            stale.extend(self.stale_lock()?.into_iter().map(|one| (folder.as_path(), one)));
        }
        for (folder, one) in &stale {
            match one {
                Stale::Missing(path) => output.line(format!("would write {}", shown(folder, path)))?,
                Stale::Leftover(path) => output.line(format!("would remove {}", shown(folder, path)))?,
                Stale::Changed(path, diff) if diff.is_empty() => output.line(format!("would change {}", shown(folder, path)))?,
                Stale::Changed(path, diff) => output.line(format!("would change {}\n{}", shown(folder, path), diff.trim_end()))?,
            }
        }
        if stale.is_empty() {
            output.line("nothing would change")?;
        }
        output.flush()
    }

    fn stale_lock(&self) -> Result<Vec<Stale>, Failure> {
        match &self.lock {
            Some((folder, lock)) => lock.check(folder).map_err(|error| lock_failure(&error)),
            None => Ok(Vec::new()),
        }
    }
}

/// What the compiler is asked for. An output of some queues has what they reach, one of all queues every type of a folder.
fn request(target: &Target, contracts: &Contracts) -> Result<Request, Failure> {
    let queues: Vec<&str> = contracts.contracts.iter().map(|contract| contract.queue.as_str()).collect();
    if let Some(missing) = target.missing(&queues) {
        let failure = Failure::failed(format!("{}: there is no contract of the queue {missing}", target.out.display()));
        return Err(failure.next_step("register one, or take the queue out of `queues` in qwerq.toml"));
    }
    let wanted = contracts.contracts.iter().filter(|contract| target.wants(&contract.queue)).cloned().collect();
    let types = contracts.types.clone().filter(|_| target.queues.is_empty());
    Ok(Request { language: target.language.clone(), contracts: wanted, types })
}

fn shown(folder: &Path, name: impl AsRef<Path>) -> String {
    if folder == Path::new(".") { name.as_ref().display().to_string() } else { folder.join(name).display().to_string() }
}
