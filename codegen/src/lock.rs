//! `qwerq.lock` and its descriptor file: the contracts that an output was made from, committed beside the code.
//!
//! The lock is sorted TOML with one `[[contract]]` a queue; the descriptors of all contracts are one FileDescriptorSet, each file once, source
//! info kept because doc comments come from there (docs/adr/0012). Nothing here knows where contracts come from or what is made of them.

use std::{
    fmt::Write as _,
    fs, io,
    path::{Path, PathBuf},
};

use prost::{Message, bytes::Bytes};
use serde::Deserialize;
use sha2::{Digest as _, Sha256};
use similar::TextDiff;

use crate::contract::ContractSource;
use crate::output::Stale;

/// The name of the lock.
pub const LOCK: &str = "qwerq.lock";

/// The name of the descriptor file that lies beside it.
pub const DESCRIPTORS: &str = "qwerq.descriptors.binpb";

/// The format that this version writes, and the only one that it reads.
const FORMAT: u32 = 1;

/// Contracts as they are committed.
#[derive(Debug, Clone, Default)]
pub struct Lock {
    contracts: Vec<ContractSource>,
}

/// Why a lock cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// The file system refuses.
    #[error("{path}: {error}", path = path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// Its reason.
        error: io::Error,
    },
    /// There is a lock, and it is not one that we wrote.
    #[error("{path}: {what}", path = path.display())]
    Broken {
        /// The file.
        path: PathBuf,
        /// What is wrong, and where.
        what: String,
    },
}

/// The lock's text, as it is read.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    format: u32,
    #[expect(dead_code, reason = "it is there for people and for tools in other languages")]
    runtime: String,
    descriptors: DescriptorFile,
    #[serde(default)]
    contract: Vec<LockedContract>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct DescriptorFile {
    file: String,
    sha256: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct LockedContract {
    queue: String,
    version: u32,
    message_type: String,
    reply_type: Option<String>,
    fingerprint: String,
    files: Vec<String>,
}

/// A FileDescriptorSet whose files stay bytes.
#[derive(Clone, PartialEq, Message)]
struct RawFiles {
    #[prost(bytes = "bytes", repeated, tag = "1")]
    file: Vec<Bytes>,
}

/// Of a FileDescriptorProto only the name.
#[derive(Clone, PartialEq, Message)]
struct FileName {
    #[prost(string, tag = "1")]
    name: String,
}

/// All files of all contracts, each content once, with the names that the lock calls them by.
#[derive(Default)]
struct Files {
    set: RawFiles,
    keys: Vec<String>,
}

impl Lock {
    /// A lock of these contracts, in any order.
    #[must_use]
    pub fn new(mut contracts: Vec<ContractSource>) -> Lock {
        contracts.sort_by(|a, b| a.queue.cmp(&b.queue));
        Lock { contracts }
    }

    /// The contracts, sorted by queue.
    #[must_use]
    pub fn contracts(&self) -> &[ContractSource] {
        &self.contracts
    }

    /// Reads the lock of a folder; `None`: there is none.
    ///
    /// # Errors
    /// When there is one that is damaged: edited by hand, half merged, or beside another descriptor file than its own.
    pub fn read(folder: &Path) -> Result<Option<Lock>, LockError> {
        let path = folder.join(LOCK);
        let Some(bytes) = read(&path)? else { return Ok(None) };
        let broken = |what: String| LockError::Broken { path: path.clone(), what };
        let text = String::from_utf8(bytes).map_err(|_| broken("is not UTF-8".to_owned()))?;
        let text: Text = toml::from_str(&text).map_err(|error| broken(error.to_string().trim_end().to_owned()))?;
        if text.format != FORMAT {
            return Err(broken(format!(
                "has format {}, and this version reads {FORMAT}: use the same version of qwer-q everywhere",
                text.format
            )));
        }
        if text.descriptors.file != DESCRIPTORS {
            return Err(broken(format!("names the descriptor file {:?} instead of {DESCRIPTORS:?}", text.descriptors.file)));
        }
        let descriptors = read(&folder.join(DESCRIPTORS))?
            .ok_or_else(|| broken(format!("{DESCRIPTORS} is missing beside it; both files are committed together")))?;
        if hex(&Sha256::digest(&descriptors)) != text.descriptors.sha256 {
            return Err(broken(format!("{DESCRIPTORS} is not the one that it was written with; both files are committed together")));
        }
        let files = Files::split(&descriptors).ok_or_else(|| broken(format!("{DESCRIPTORS} is no FileDescriptorSet")))?;
        let contracts = text.contract.into_iter().map(|contract| files.contract(contract).map_err(&broken));
        Ok(Some(Lock::new(contracts.collect::<Result<_, _>>()?)))
    }

    /// Writes both files where they differ; gives the names of those that were written.
    ///
    /// # Errors
    /// When the file system refuses.
    pub fn write(&self, folder: &Path) -> Result<Vec<&'static str>, LockError> {
        let mut written = Vec::new();
        // The descriptors first: a lock that is there names descriptors that are there.
        for (name, bytes) in self.files().into_iter().rev() {
            let path = folder.join(name);
            if read(&path)?.as_deref() != Some(&*bytes) {
                fs::write(&path, bytes).map_err(|error| LockError::Io { path, error })?;
                written.push(name);
            }
        }
        Ok(written)
    }

    /// Every way in which the files of a folder are not this lock, with a diff of the text.
    ///
    /// # Errors
    /// When a file cannot be read.
    pub fn check(&self, folder: &Path) -> Result<Vec<Stale>, LockError> {
        let mut stale = Vec::new();
        for (name, fresh) in self.files() {
            let path = PathBuf::from(name);
            match read(&folder.join(name))? {
                None => stale.push(Stale::Missing(path)),
                Some(there) if there == fresh => {}
                Some(_) if name == DESCRIPTORS => stale.push(Stale::Changed(path, String::new())),
                Some(there) => {
                    let (there, fresh) = (String::from_utf8_lossy(&there), String::from_utf8_lossy(&fresh));
                    let diff = TextDiff::from_lines(&*there, &*fresh);
                    let diff = diff.unified_diff().context_radius(2).header(name, &format!("{name} (fresh)")).to_string();
                    stale.push(Stale::Changed(path, diff));
                }
            }
        }
        Ok(stale)
    }

    /// Both files: name and bytes, the lock first.
    fn files(&self) -> [(&'static str, Vec<u8>); 2] {
        let mut files = Files::default();
        let names: Vec<Vec<String>> = self.contracts.iter().map(|contract| files.add(&contract.descriptor_set)).collect();
        let descriptors = files.set.encode_to_vec();
        let text = self.text(&names, &hex(&Sha256::digest(&descriptors)));
        [(LOCK, text.into_bytes()), (DESCRIPTORS, descriptors)]
    }

    fn text(&self, files: &[Vec<String>], sha256: &str) -> String {
        let mut text = format!(
            "# {}: the contracts that the generated code was made from.\n# Commit it together with {DESCRIPTORS}; do not edit it.\n\
             format = {FORMAT}\nruntime = {}\n\n[descriptors]\nfile = {}\nsha256 = {}\n",
            crate::output::MARK,
            quoted(&crate::runtime_range()),
            quoted(DESCRIPTORS),
            quoted(sha256),
        );
        for (contract, files) in self.contracts.iter().zip(files) {
            let mut line = |key: &str, value: String| writeln!(text, "{key} = {value}").expect("a String takes everything");
            line("\n[[contract]]\nqueue", quoted(&contract.queue));
            line("version", contract.version.to_string());
            line("message_type", quoted(&contract.message_type));
            if let Some(reply_type) = &contract.reply_type {
                line("reply_type", quoted(reply_type));
            }
            line("fingerprint", quoted(&hex(&contract.fingerprint)));
            let names: String = files.iter().map(|name| format!("    {},\n", quoted(name))).collect();
            line("files", format!("[\n{names}]"));
        }
        text
    }
}

impl Files {
    /// The files of a descriptor file with their names; `None`: the bytes are something else.
    fn split(bytes: &[u8]) -> Option<Files> {
        let mut files = Files::default();
        for file in RawFiles::decode(bytes).ok()?.file {
            let key = files.free_key(&FileName::decode(file.clone()).ok()?.name);
            files.push(key, file);
        }
        Some(files)
    }

    /// Adds the files of one contract; gives the names by which the lock calls them, in their order. Bytes that do not decode, which no
    /// registry gives out, are no file.
    fn add(&mut self, descriptor_set: &Bytes) -> Vec<String> {
        let set = RawFiles::decode(descriptor_set.clone()).unwrap_or_default();
        set.file.into_iter().map(|file| self.key_of(file)).collect()
    }

    fn key_of(&mut self, file: Bytes) -> String {
        if let Some(at) = self.set.file.iter().position(|known| *known == file) {
            return self.keys[at].clone();
        }
        let key = self.free_key(&FileName::decode(file.clone()).unwrap_or_default().name);
        self.push(key.clone(), file);
        key
    }

    /// The file's name; two contracts may hold different texts of one file, and the second of them is `name~2`.
    fn free_key(&self, name: &str) -> String {
        let numbered = (2..).map(|number| format!("{name}~{number}"));
        let mut candidates = std::iter::once(name.to_owned()).chain(numbered);
        candidates.find(|key| !self.keys.contains(key)).expect("there are more numbers than files")
    }

    fn push(&mut self, key: String, file: Bytes) {
        self.keys.push(key);
        self.set.file.push(file);
    }

    fn contract(&self, locked: LockedContract) -> Result<ContractSource, String> {
        let of = |what: String| format!("queue {}: {what}", locked.queue);
        let fingerprint = unhex(&locked.fingerprint).ok_or_else(|| of("its fingerprint is not 64 hexadecimal digits".to_owned()))?;
        let file = |name: &String| {
            let found = self.keys.iter().position(|key| key == name);
            found.map(|at| self.set.file[at].clone()).ok_or_else(|| of(format!("{DESCRIPTORS} has no file {name:?}")))
        };
        let set = RawFiles { file: locked.files.iter().map(file).collect::<Result<_, _>>()? };
        Ok(ContractSource {
            queue: locked.queue,
            version: locked.version,
            message_type: locked.message_type,
            reply_type: locked.reply_type,
            fingerprint,
            descriptor_set: set.encode_to_vec().into(),
        })
    }
}

/// The bytes of a file; `None`: it is not there.
fn read(path: &Path) -> Result<Option<Vec<u8>>, LockError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(LockError::Io { path: path.to_owned(), error }),
    }
}

/// A TOML string.
fn quoted(text: &str) -> String {
    toml::Value::from(text).to_string()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn unhex(text: &str) -> Option<[u8; 32]> {
    let bytes: Option<Vec<u8>> =
        text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect();
    bytes?.try_into().ok()
}

#[cfg(test)]
mod tests;
