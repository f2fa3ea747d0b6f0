//! Source locations of a descriptor: looked up by path, and kept right when elements are taken out of a file.
//!
//! A path is a list of field numbers and indices into FileDescriptorProto, as `SourceCodeInfo.Location.path` has it.

use std::collections::HashMap;

use prost_types::{DescriptorProto, FileDescriptorProto, SourceCodeInfo, source_code_info::Location};

/// FileDescriptorProto.message_type and enum_type: the first number of a type's path.
pub(crate) const FILE_MESSAGE: i32 = 4;
pub(crate) const FILE_ENUM: i32 = 5;
/// DescriptorProto.field, nested_type, enum_type, oneof_decl.
pub(crate) const MESSAGE_FIELD: i32 = 2;
pub(crate) const MESSAGE_NESTED: i32 = 3;
pub(crate) const MESSAGE_ENUM: i32 = 4;
pub(crate) const MESSAGE_ONEOF: i32 = 8;
/// EnumDescriptorProto.value.
pub(crate) const ENUM_VALUE: i32 = 2;

/// An index into a descriptor's repeated field, as paths write it.
pub(crate) fn index(at: usize) -> i32 {
    i32::try_from(at).expect("a descriptor has fewer than 2^31 elements")
}

/// Functions over a file's `source_code_info`.
pub(crate) struct Locations;

impl Locations {
    /// The 1-based line and column where the element starts.
    pub(crate) fn line_column(file: &FileDescriptorProto, path: &[i32]) -> Option<(usize, usize)> {
        let location = file.source_code_info.as_ref()?.location.iter().find(|l| l.path == path)?;
        let line = usize::try_from(*location.span.first()?).ok()?;
        let column = usize::try_from(*location.span.get(1)?).ok()?;
        Some((line + 1, column + 1))
    }

    /// Keeps the top-level messages and enums that `keep` names by index; locations move along, all others go. Every element that stays
    /// gets exactly one location, because prost-build panics where one is missing.
    pub(crate) fn retain(
        file: &mut FileDescriptorProto,
        mut keep_message: impl FnMut(usize) -> bool,
        mut keep_enum: impl FnMut(usize) -> bool,
    ) {
        let old: HashMap<Vec<i32>, Location> = file
            .source_code_info
            .take()
            .map(|info| info.location.into_iter().rev().map(|l| (l.path.clone(), l)).collect())
            .unwrap_or_default();
        let mut kept = Kept { old, new: Vec::new() };
        let mut messages = Vec::new();
        for (at, message) in std::mem::take(&mut file.message_type).into_iter().enumerate() {
            if keep_message(at) {
                kept.message(&message, &[FILE_MESSAGE, index(at)], &[FILE_MESSAGE, index(messages.len())]);
                messages.push(message);
            }
        }
        let mut enums = Vec::new();
        for (at, enumeration) in std::mem::take(&mut file.enum_type).into_iter().enumerate() {
            if keep_enum(at) {
                let (from, to) = ([FILE_ENUM, index(at)], [FILE_ENUM, index(enums.len())]);
                kept.enumeration(enumeration.value.len(), &from, &to);
                enums.push(enumeration);
            }
        }
        file.message_type = messages;
        file.enum_type = enums;
        file.service.clear();
        file.extension.clear();
        file.source_code_info = Some(SourceCodeInfo { location: kept.new });
    }
}

struct Kept {
    old: HashMap<Vec<i32>, Location>,
    new: Vec<Location>,
}

impl Kept {
    fn message(&mut self, message: &DescriptorProto, from: &[i32], to: &[i32]) {
        self.element(from, to);
        for at in 0..message.field.len() {
            self.child(from, to, MESSAGE_FIELD, at);
        }
        for at in 0..message.oneof_decl.len() {
            self.child(from, to, MESSAGE_ONEOF, at);
        }
        for (at, nested) in message.nested_type.iter().enumerate() {
            let step = [MESSAGE_NESTED, index(at)];
            self.message(nested, &[from, &step].concat(), &[to, &step].concat());
        }
        for (at, enumeration) in message.enum_type.iter().enumerate() {
            let step = [MESSAGE_ENUM, index(at)];
            self.enumeration(enumeration.value.len(), &[from, &step].concat(), &[to, &step].concat());
        }
    }

    fn enumeration(&mut self, values: usize, from: &[i32], to: &[i32]) {
        self.element(from, to);
        for at in 0..values {
            self.child(from, to, ENUM_VALUE, at);
        }
    }

    fn child(&mut self, from: &[i32], to: &[i32], field: i32, at: usize) {
        let step = [field, index(at)];
        self.element(&[from, &step].concat(), &[to, &step].concat());
    }

    fn element(&mut self, from: &[i32], to: &[i32]) {
        let mut location = self.old.remove(from).unwrap_or_default();
        location.path = to.to_vec();
        self.new.push(location);
    }
}
