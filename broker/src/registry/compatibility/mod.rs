//! Compatibility: what differs between two versions of a contract, and whom it breaks.
//!
//! Pure functions over linked descriptor sets: `walk` pairs the types that the two contracts reach, `message`, `field`, `oneof` and
//! `enumeration` compare a pair, `scalar` holds the table of types, `place` finds the lines in the authors' files; `verdict` holds it all
//! against a rule. Which rule a queue has and what is done about a break is decided elsewhere. docs/compatibility.md is the reference of the rules.

mod change;
mod declaration;
mod enumeration;
mod field;
mod message;
mod oneof;
mod place;
mod reserved;
mod rule;
mod scalar;
mod verdict;
mod walk;

use bytes::Bytes;

pub use self::{
    change::{Breaks, Change, Layer},
    place::{Place, Places},
    rule::Rule,
    verdict::{Candidate, Verdict, describe, is_break},
};
use super::{contract::find_message, error::SchemaError, link, schema::Schema};

/// One version of a contract, ready to be compared with another.
#[derive(Debug)]
pub struct Version {
    raw_files: Vec<Bytes>,
    schema: Schema,
    message: u32,
    reply: Option<u32>,
}

impl Version {
    /// Links a version from a `google.protobuf.FileDescriptorSet` that holds all imports.
    ///
    /// # Errors
    /// As [`super::Contract::compile`].
    pub fn compile(descriptor_set: &[u8], message_type: &str, reply_type: Option<&str>) -> Result<Version, SchemaError> {
        Version::link(link::split(Bytes::copy_from_slice(descriptor_set))?, message_type, reply_type)
    }

    /// Links a version from its raw files.
    ///
    /// # Errors
    /// As [`super::Contract::compile`].
    pub fn link(raw_files: Vec<Bytes>, message_type: &str, reply_type: Option<&str>) -> Result<Version, SchemaError> {
        let schema = link::link(&raw_files)?;
        let message = find_message(&schema, message_type)?;
        let reply = reply_type.map(|name| find_message(&schema, name)).transpose()?;
        Ok(Version { raw_files, schema, message, reply })
    }

    /// The lines of this version's definitions in its authors' files.
    #[must_use]
    pub fn places(&self) -> Places {
        Places::read(&self.raw_files)
    }
}

/// Everything that changed from `old` to `new` and may break somebody, in the order of the old declarations.
#[must_use]
pub fn compare(old: &Version, new: &Version) -> Vec<Change> {
    walk::walk(old, new)
}

impl Change {
    /// The definition in the old version, or what an added one stands in.
    #[must_use]
    pub fn old_place(&self, places: &Places) -> Option<Place> {
        places.of(&self.old_symbol)
    }

    /// The definition in the new version, or what a removed one stood in.
    #[must_use]
    pub fn new_place(&self, places: &Places) -> Option<Place> {
        places.of(&self.new_symbol)
    }
}
