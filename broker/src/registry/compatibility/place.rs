//! Where definitions stand in their authors' files, from the source locations of a descriptor set.
//!
//! It is read only when there is something to report. A set that was made without locations gives file names alone.

use std::collections::HashMap;
use std::fmt;

use bytes::Bytes;
use prost::Message as _;
use prost_types::{DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto};

/// A place in a file, as editors count: from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    /// The name that imports use.
    pub file: String,
    /// Line and column.
    pub line_column: Option<(u32, u32)>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.file)?;
        match self.line_column {
            Some((line, column)) => write!(f, ":{line}:{column}"),
            None => Ok(()),
        }
    }
}

/// The places of all messages, fields, extensions, enums and enum values of a descriptor set.
#[derive(Debug, Default)]
pub struct Places {
    files: Vec<String>,
    symbols: HashMap<String, (usize, Option<(u32, u32)>)>,
}

// Field numbers of descriptor.proto, which make up a location's path.
const FILE_MESSAGE: i32 = 4;
const FILE_ENUM: i32 = 5;
const FILE_EXTENSION: i32 = 7;
const MESSAGE_FIELD: i32 = 2;
const MESSAGE_NESTED: i32 = 3;
const MESSAGE_ENUM: i32 = 4;
const MESSAGE_EXTENSION: i32 = 6;
const ENUM_VALUE: i32 = 2;

impl Places {
    /// Reads the locations of raw files; a file that does not decode has none.
    pub(super) fn read(raw_files: &[Bytes]) -> Places {
        let mut places = Places::default();
        for raw in raw_files {
            if let Ok(file) = FileDescriptorProto::decode(raw.as_ref()) {
                let number = places.files.len();
                places.files.push(file.name().to_owned());
                FileWalk { places: &mut places, file: number, locations: locations(&file), path: Vec::new() }.file(&file);
            }
        }
        places
    }

    /// The place of a symbol as `Change` names it.
    pub(super) fn of(&self, symbol: &str) -> Option<Place> {
        let (file, line_column) = self.symbols.get(symbol)?;
        Some(Place { file: self.files[*file].clone(), line_column: *line_column })
    }
}

/// Path -> line and column.
fn locations(file: &FileDescriptorProto) -> HashMap<&[i32], (u32, u32)> {
    let mut found = HashMap::new();
    for location in file.source_code_info.iter().flat_map(|info| &info.location) {
        if let [line, column, ..] = location.span[..]
            && let (Ok(line), Ok(column)) = (u32::try_from(line), u32::try_from(column))
        {
            found.entry(location.path.as_slice()).or_insert((line.saturating_add(1), column.saturating_add(1)));
        }
    }
    found
}

struct FileWalk<'a> {
    places: &'a mut Places,
    file: usize,
    locations: HashMap<&'a [i32], (u32, u32)>,
    path: Vec<i32>,
}

impl FileWalk<'_> {
    fn file(&mut self, file: &FileDescriptorProto) {
        let package = file.package();
        self.each(FILE_MESSAGE, &file.message_type, |walk, message| walk.message(package, message));
        self.each(FILE_ENUM, &file.enum_type, |walk, enumeration| walk.enumeration(package, enumeration));
        self.each(FILE_EXTENSION, &file.extension, |walk, extension| walk.extension(package, extension));
    }

    fn message(&mut self, scope: &str, message: &DescriptorProto) {
        let full_name = join(scope, message.name());
        self.note(full_name.clone());
        self.each(MESSAGE_FIELD, &message.field, |walk, field| walk.note(join(&full_name, field.name())));
        self.each(MESSAGE_NESTED, &message.nested_type, |walk, nested| walk.message(&full_name, nested));
        self.each(MESSAGE_ENUM, &message.enum_type, |walk, enumeration| walk.enumeration(&full_name, enumeration));
        self.each(MESSAGE_EXTENSION, &message.extension, |walk, extension| walk.extension(&full_name, extension));
    }

    fn enumeration(&mut self, scope: &str, enumeration: &EnumDescriptorProto) {
        let full_name = join(scope, enumeration.name());
        self.note(full_name.clone());
        self.each(ENUM_VALUE, &enumeration.value, |walk, value| walk.note(join(&full_name, value.name())));
    }

    fn extension(&mut self, scope: &str, extension: &FieldDescriptorProto) {
        let extendee = extension.extendee().trim_start_matches('.');
        self.note(format!("{extendee}.[{}]", join(scope, extension.name())));
    }

    fn each<T>(&mut self, part: i32, items: &[T], mut visit: impl FnMut(&mut Self, &T)) {
        for (index, item) in (0..).zip(items) {
            self.path.extend([part, index]);
            visit(self, item);
            self.path.truncate(self.path.len() - 2);
        }
    }

    fn note(&mut self, symbol: String) {
        let line_column = self.locations.get(self.path.as_slice()).copied();
        self.places.symbols.insert(symbol, (self.file, line_column));
    }
}

fn join(scope: &str, name: &str) -> String {
    crate::registry::link::join(scope, name)
}
