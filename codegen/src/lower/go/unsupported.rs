//! What Go's protobuf library has given up: code that it would be emitted for compiles, and panics when the program starts.

use super::{index::Index, package::Package, source::Source};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    ir::{Locations, whole::WholeFile},
};

/// Reports every message set: a form of proto1, whose extensions are elements of a group.
pub(super) fn check(files: &[WholeFile], packages: &[Package], index: &Index<'_>, diagnostics: &mut Diagnostics) {
    for (file, package) in files.iter().zip(packages).filter(|(_, package)| package.is_emitted()) {
        for message in Source::new(file, index, package).messages {
            if message.proto.options.as_ref().is_some_and(|options| options.message_set_wire_format()) {
                let what = format!("{} is a message set, which google.golang.org/protobuf no longer supports", message.full_name);
                diagnostics.push(
                    Diagnostic::error(what)
                        .at(file.proto.name(), Locations::line_column(&file.proto, &message.path))
                        .help("leave out message_set_wire_format, or leave the file out of what is generated for Go"),
                );
            }
        }
    }
}
