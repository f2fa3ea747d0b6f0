//! A queue's contract as the durable state knows it: versions and the active one. What a descriptor means is none of its business.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::codec::{DecodeError, Decoder, put_bytes, put_varint};
use crate::ids::Millis;

const VERSION: u8 = 1;

/// Newest format of a schema record; 1 held texts.
const RECORD_VERSION: u8 = 2;

/// One immutable version of a contract.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaRecord {
    /// 1, 2, 3...
    pub version: u32,
    /// Full name of the message type.
    pub message_type: String,
    /// Full name of the reply type, for CALL.
    pub reply_type: Option<String>,
    /// SHA-256 of the canonical form: same fingerprint, same version.
    pub fingerprint: [u8; 32],
    /// The descriptor files by content, in dependency order.
    pub files: Vec<[u8; 32]>,
    /// Source files as path and text, when given; the texts by content, since versions and queues share most of them.
    pub sources: Vec<(String, [u8; 32])>,
    /// When it was registered.
    pub registered_at: Millis,
    /// By which client.
    pub registered_by: String,
}

impl SchemaRecord {
    /// Everything that it refers to by content.
    pub fn contents(&self) -> impl Iterator<Item = &[u8; 32]> {
        self.files.iter().chain(self.sources.iter().map(|(_, text)| text))
    }

    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        out.push(RECORD_VERSION);
        put_varint(out, u64::from(self.version));
        put_bytes(out, self.message_type.as_bytes());
        put_bytes(out, self.reply_type.as_deref().unwrap_or_default().as_bytes());
        out.extend_from_slice(&self.fingerprint);
        put_varint(out, self.files.len() as u64);
        for hash in &self.files {
            out.extend_from_slice(hash);
        }
        put_varint(out, self.sources.len() as u64);
        for (path, text) in &self.sources {
            put_bytes(out, path.as_bytes());
            out.extend_from_slice(text);
        }
        put_varint(out, self.registered_at);
        put_bytes(out, self.registered_by.as_bytes());
    }

    pub(crate) fn decode(from: &mut Decoder<'_>) -> Result<SchemaRecord, DecodeError> {
        from.version("schema record version", RECORD_VERSION)?;
        Ok(SchemaRecord {
            version: from.u32("schema version")?,
            message_type: from.text()?.to_owned(),
            reply_type: Some(from.text()?.to_owned()).filter(|name| !name.is_empty()),
            fingerprint: from.array()?,
            files: (0..from.count("schema files")?).map(|_| from.array()).collect::<Result<_, _>>()?,
            sources: (0..from.count("schema sources")?)
                .map(|_| Ok((from.text()?.to_owned(), from.array()?)))
                .collect::<Result<_, DecodeError>>()?,
            registered_at: from.varint()?,
            registered_by: from.text()?.to_owned(),
        })
    }
}

/// A descriptor file, or the text of a source file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaFile {
    /// The FileDescriptorProto or the text, byte for byte as registered.
    pub bytes: Arc<[u8]>,
}

/// All versions of one queue's contract.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Schemas {
    pub(crate) versions: Vec<Arc<SchemaRecord>>,
    pub(crate) active: u32,
    /// Versions whose publishers are refused.
    pub(crate) retired: BTreeSet<u32>,
    /// So many versions, the first ones, were deleted with a former contract.
    pub(crate) deleted: u32,
}

impl Schemas {
    /// The versions, oldest first.
    #[must_use]
    pub fn versions(&self) -> &[Arc<SchemaRecord>] {
        &self.versions
    }

    /// A version by number.
    #[must_use]
    pub fn version(&self, number: u32) -> Option<&Arc<SchemaRecord>> {
        self.versions.get(self.position(number)?)
    }

    /// Where a version is among the versions; the first after a deletion is not number 1.
    fn position(&self, number: u32) -> Option<usize> {
        usize::try_from(number.checked_sub(1)?.checked_sub(self.deleted)?).ok()
    }

    /// Whether a version's publishers are refused.
    #[must_use]
    pub fn is_retired(&self, number: u32) -> bool {
        self.retired.contains(&number)
    }

    /// The version of a fingerprint.
    #[must_use]
    pub fn by_fingerprint(&self, fingerprint: &[u8; 32]) -> Option<&Arc<SchemaRecord>> {
        self.versions.iter().find(|record| record.fingerprint == *fingerprint)
    }

    /// The active version, if the queue has a contract.
    #[must_use]
    pub fn active(&self) -> Option<&Arc<SchemaRecord>> {
        self.version(self.active)
    }

    /// The number that the next version gets.
    #[must_use]
    pub fn next_version(&self) -> u32 {
        self.deleted + self.count() + 1
    }

    fn count(&self) -> u32 {
        u32::try_from(self.versions.len()).expect("fewer than 2^32 versions")
    }

    pub(crate) fn replace(&mut self, record: SchemaRecord) {
        if let Some(known) = self.position(record.version).and_then(|at| self.versions.get_mut(at)) {
            *known = Arc::new(record);
        }
    }

    /// Forgets all versions, but not how many there were.
    pub(crate) fn delete(&mut self) -> Vec<Arc<SchemaRecord>> {
        self.deleted += self.count();
        self.active = 0;
        self.retired.clear();
        std::mem::take(&mut self.versions)
    }

    /// What is known of versions beyond their records.
    pub(crate) fn encode_marks(&self, out: &mut Vec<u8>) {
        out.push(VERSION);
        put_varint(out, u64::from(self.deleted));
        put_varint(out, self.retired.len() as u64);
        self.retired.iter().for_each(|version| put_varint(out, u64::from(*version)));
    }

    pub(crate) fn decode_marks(&mut self, from: &mut Decoder<'_>) -> Result<(), DecodeError> {
        from.version("schema marks version", VERSION)?;
        self.deleted = from.u32("deleted versions")?;
        self.retired = (0..from.count("retired versions")?).map(|_| from.u32("retired version")).collect::<Result<_, _>>()?;
        Ok(())
    }
}
