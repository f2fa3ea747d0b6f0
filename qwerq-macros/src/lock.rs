//! `qwerq.lock` and its descriptor file, as macros see them: the contracts that a crate is held to at compile time.
//!
//! Found from CARGO_MANIFEST_DIR upwards, or where `schema = ".."` says. No network and no .proto compiler; the reader is our own, because
//! everybody who uses a macro compiles it. Who writes these files: `codegen/src/lock.rs`; why so: docs/adr/0012. Read on in
//! [`schema`] for what a contract says of its types.

mod descriptor;
pub(crate) mod schema;
mod sha256;
mod text;
mod wire;

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use proc_macro2::{Literal, Span, TokenStream};
use quote::quote;
use syn::LitStr;

use self::schema::{Enum, File, Message};
use crate::suggestion;

/// The name of the lock.
const LOCK: &str = "qwerq.lock";

/// The name of the descriptor file that lies beside it.
const DESCRIPTORS: &str = "qwerq.descriptors.binpb";

/// What is to be done when there is no lock.
const MAKE: &str = "`qwer-q gen` writes it, in the folder of qwerq.toml (an empty qwerq.toml takes all contracts of the broker); \
                    commit it together with qwerq.descriptors.binpb";

/// What is to be done when the lock is no good.
const RESTORE: &str = "restore both files from version control, or make them anew with `qwer-q gen`";

/// The contracts of a lock with their types.
#[derive(Debug)]
pub(crate) struct Lock {
    place: Place,
    contracts: Vec<Contract>,
    files: Vec<File>,
}

/// One queue's contract.
#[derive(Debug)]
pub(crate) struct Contract {
    pub(crate) queue: String,
    pub(crate) version: u32,
    pub(crate) message_type: String,
    pub(crate) reply_type: Option<String>,
    pub(crate) fingerprint: [u8; 32],
    /// Where its files lie in `Lock::files`.
    files: Vec<usize>,
}

impl Contract {
    /// How errors name a version of a type: `shop.v1.Order v4`. Contracts that no broker has numbered have no version to show.
    pub(crate) fn versioned(&self, type_name: &str) -> String {
        match self.version {
            0 => type_name.to_owned(),
            version => format!("{type_name} v{version}"),
        }
    }
}

impl Lock {
    /// The lock of the crate that is being compiled, or the one that `schema` names: a lock, or its folder, relative to the crate's folder.
    ///
    /// # Errors
    /// On `schema` if there is one, else on `attribute`: there is no lock, or none that can be used, and what to do then.
    pub(crate) fn load(attribute: Span, schema: Option<&LitStr>) -> syn::Result<Arc<Lock>> {
        let span = schema.map_or(attribute, LitStr::span);
        let root = env::var_os("CARGO_MANIFEST_DIR").map_or_else(PathBuf::new, PathBuf::from);
        let place = match schema {
            Some(schema) => Place::named(&root, &schema.value()),
            None => Place::found(&root),
        };
        place.and_then(cached).map_err(|what| syn::Error::new(span, what))
    }

    /// The contract of a queue.
    ///
    /// # Errors
    /// On the name: there is none, with the name that was probably meant.
    pub(crate) fn contract(&self, queue: &LitStr) -> syn::Result<&Contract> {
        let name = queue.value();
        self.contracts.iter().find(|contract| contract.queue == name).ok_or_else(|| {
            let hint = suggestion::hint(&name, self.contracts.iter().map(|contract| &*contract.queue));
            let what = format!("no contract of queue `{name}` in {}; {hint}", self.shown());
            syn::Error::new(queue.span(), format!("{what}\nif the queue is new, `qwer-q gen` takes its contract into the lock"))
        })
    }

    /// All contracts, sorted by queue.
    pub(crate) fn contracts(&self) -> &[Contract] {
        &self.contracts
    }

    /// A message type as a contract has it.
    pub(crate) fn message<'l>(&'l self, contract: &'l Contract, name: &str) -> Option<&'l Message> {
        self.messages(contract).find(|message| message.name == name)
    }

    /// Every message type of a contract.
    pub(crate) fn messages<'l>(&'l self, contract: &'l Contract) -> impl Iterator<Item = &'l Message> + Clone {
        contract.files.iter().flat_map(|at| &self.files[*at].messages)
    }

    /// An enum type as a contract has it.
    pub(crate) fn enumeration<'l>(&'l self, contract: &'l Contract, name: &str) -> Option<&'l Enum> {
        self.enums(contract).find(|found| found.name == name)
    }

    /// Every enum type of a contract.
    pub(crate) fn enums<'l>(&'l self, contract: &'l Contract) -> impl Iterator<Item = &'l Enum> + Clone {
        contract.files.iter().flat_map(|at| &self.files[*at].enums)
    }

    /// The lock's path, for messages.
    pub(crate) fn shown(&self) -> &str {
        &self.place.shown
    }

    /// Items that have the compiler run the macro again when the contracts change. The lock is enough: it holds the descriptors' hash, and
    /// reading the descriptors once more for every attribute of a crate would be paid for in memory.
    pub(crate) fn tracked(&self) -> TokenStream {
        tracked(&self.place.path)
    }

    /// The same, of both files; for a macro that stands in a crate once.
    pub(crate) fn tracked_with_descriptors(&self) -> TokenStream {
        let (lock, descriptors) = (tracked(&self.place.path), tracked(&self.place.descriptors()));
        quote!(#lock #descriptors)
    }

    /// Reads a lock and the descriptor file beside it.
    fn read(place: Place) -> Result<Lock, String> {
        let broken = |what: String| format!("{}: {what}\n{RESTORE}", place.shown);
        let unreadable = |error: io::Error| format!("{} or the descriptors beside it cannot be read: {error}", place.shown);
        let bytes = fs::read(&place.path).map_err(unreadable)?;
        let text = String::from_utf8(bytes).map_err(|_| broken("is not UTF-8".to_owned()))?;
        let text = text::read(&text).map_err(broken)?;
        if text.descriptors != DESCRIPTORS {
            return Err(broken(format!("names the descriptor file {:?} instead of {DESCRIPTORS:?}", text.descriptors)));
        }
        let bytes = match fs::read(place.descriptors()) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Err(broken(format!("{DESCRIPTORS} is missing beside it; both files are committed together")));
            }
            Err(error) => return Err(unreadable(error)),
        };
        if sha256::hex(&bytes) != text.sha256 {
            return Err(broken(format!("{DESCRIPTORS} is not the one that it was written with; both files are committed together")));
        }
        let no_descriptors = |_| broken(format!("{DESCRIPTORS} holds no descriptors"));
        let raw = descriptor::split(&bytes).map_err(no_descriptors)?;
        let mut keys: Vec<String> = Vec::with_capacity(raw.len());
        let mut files = Vec::with_capacity(raw.len());
        for file in raw {
            // The second content of one name is `name~2`.
            let name = descriptor::file_name(file).map_err(no_descriptors)?;
            let mut numbered = std::iter::once(name.clone()).chain((2..).map(|number| format!("{name}~{number}")));
            keys.push(numbered.find(|key| !keys.contains(key)).expect("there are more numbers than files"));
            files.push(descriptor::file(file).map_err(no_descriptors)?);
        }
        let contracts = text.contracts.into_iter().map(|locked| {
            let file = |name: &String| {
                let at = keys.iter().position(|key| key == name);
                at.ok_or_else(|| broken(format!("queue {}: {DESCRIPTORS} has no file {name:?}", locked.queue)))
            };
            Ok(Contract {
                files: locked.files.iter().map(file).collect::<Result<_, String>>()?,
                queue: locked.queue,
                version: locked.version,
                message_type: locked.message_type,
                reply_type: locked.reply_type,
                fingerprint: locked.fingerprint,
            })
        });
        Ok(Lock { contracts: contracts.collect::<Result<_, String>>()?, place, files })
    }
}

/// Where a lock lies.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    path: PathBuf,
    /// The same relative to the crate, for people.
    shown: String,
}

impl Place {
    /// The nearest lock in a folder and those above it.
    fn found(folder: &Path) -> Result<Place, String> {
        let mut candidates = folder.ancestors().map(|folder| folder.join(LOCK)).enumerate();
        let found = candidates.find(|(_, path)| path.is_file()).map(|(up, path)| Place { path, shown: "../".repeat(up) + LOCK });
        found.ok_or_else(|| {
            let nowhere = format!("there is no {LOCK} in {} or a folder above it", folder.display());
            format!("{nowhere}\n{MAKE}\nif it lies elsewhere: `schema = \"path/to/{LOCK}\"`")
        })
    }

    /// The lock at a path, or in the folder there.
    fn named(root: &Path, shown: &str) -> Result<Place, String> {
        let path = root.join(shown);
        let path = if path.is_dir() { path.join(LOCK) } else { path };
        if path.is_file() {
            return Ok(Place { path, shown: shown.to_owned() });
        }
        Err(format!("there is no lock at {shown}; the path is relative to the folder of Cargo.toml\n{MAKE}"))
    }

    fn descriptors(&self) -> PathBuf {
        self.path.with_file_name(DESCRIPTORS)
    }
}

fn tracked(path: &Path) -> TokenStream {
    let path = Literal::string(&path.display().to_string());
    quote!(
        const _: &[u8] = ::core::include_bytes!(#path);
    )
}

/// By what a file is known to be the same as before.
type Stamp = Option<(u64, SystemTime)>;

/// The lock that was read last, with the stamps that both files had before. A crate has one lock and many attributes, and the server of an
/// IDE lives on while files change.
static LAST: Mutex<Option<([Stamp; 2], Arc<Lock>)>> = Mutex::new(None);

fn cached(place: Place) -> Result<Arc<Lock>, String> {
    let stamps = [stamp(&place.path), stamp(&place.descriptors())];
    // Whoever panicked while holding it left a value that is whole.
    let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some((known, lock)) = &*last
        && lock.place == place
        && *known == stamps
    {
        return Ok(Arc::clone(lock));
    }
    let lock = Arc::new(Lock::read(place)?);
    *last = Some((stamps, Arc::clone(&lock)));
    Ok(lock)
}

fn stamp(path: &Path) -> Stamp {
    let data = fs::metadata(path).ok()?;
    Some((data.len(), data.modified().ok()?))
}

#[cfg(test)]
mod tests;
