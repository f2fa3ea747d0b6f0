//! Fields and oneofs that are different in the .proto and one property in TypeScript: `foo_bar` and `fooBar`.
//!
//! protobuf-es makes property names from the descriptor at run time, so a collision is cured by renaming in the descriptor that the file
//! carries; only numbers reach the wire, and the JSON name is kept. The first keeps its name, the others get `_2`, `_3`, and a warning.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{
    descriptor::{File, MessageType},
    names::camel,
};
use crate::{
    diagnostic::{Diagnostic, Diagnostics},
    ir::locations::{self, FILE_MESSAGE, MESSAGE_FIELD, MESSAGE_NESTED, MESSAGE_ONEOF},
};

/// New names by the element's path in the descriptor.
pub(super) type Renames = BTreeMap<Vec<i32>, String>;

/// Renames in `file`, and says what.
pub(super) fn rename(file: &mut File, diagnostics: &mut Diagnostics) -> Renames {
    let mut renames = Renames::new();
    for (at, message) in file.messages.iter().enumerate() {
        collect(message, &[FILE_MESSAGE, locations::index(at)], &mut renames);
    }
    for (path, new) in &renames {
        let (message, kind, at) = find(file, path);
        let old =
            std::mem::replace(if kind == MESSAGE_FIELD { &mut message.fields[at].name } else { &mut message.oneofs[at].name }, new.clone());
        if kind == MESSAGE_FIELD {
            message.fields[at].json_name.get_or_insert_with(|| camel(&old));
        }
        let what = format!("{}.{old} is emitted as `{}`, because another member is `{}` already", message.name, camel(new), camel(&old));
        let place = file.source.as_ref().and_then(|source| source.location.iter().find(|location| location.path == *path));
        let number = |at: usize| place.and_then(|place| usize::try_from(*place.span.get(at)?).ok()).map(|number| number + 1);
        diagnostics.push(
            Diagnostic::warning(what)
                .at(&file.name, number(0).zip(number(1)))
                .help("rename one of them to choose the names yourself; the wire format knows only numbers"),
        );
    }
    renames
}

fn collect(message: &MessageType, path: &[i32], renames: &mut Renames) {
    // Members are fields and oneofs; a oneof's fields are among themselves.
    let mut scopes: HashMap<Option<usize>, HashSet<String>> = HashMap::new();
    let names: HashSet<String> =
        message.fields.iter().map(|field| camel(&field.name)).chain(message.oneofs.iter().map(|o| camel(&o.name))).collect();
    let mut enter = |scope: Option<usize>, name: &str| -> Option<String> {
        let taken = scopes.entry(scope).or_default();
        if taken.insert(camel(name)) {
            return None;
        }
        let free = (2..).map(|n| format!("{name}_{n}")).find(|wish| !names.contains(&camel(wish)) && taken.insert(camel(wish)));
        Some(free.expect("the counter is endless"))
    };
    let mut oneofs_seen = HashSet::new();
    for (at, field) in message.fields.iter().enumerate() {
        let oneof = field.real_oneof();
        if let Some(oneof) = oneof
            && oneofs_seen.insert(oneof)
            && let Some(new) = enter(None, &message.oneofs[oneof].name)
        {
            renames.insert([path, &[MESSAGE_ONEOF, locations::index(oneof)]].concat(), new);
        }
        if let Some(new) = enter(oneof, &field.name) {
            renames.insert([path, &[MESSAGE_FIELD, locations::index(at)]].concat(), new);
        }
    }
    for (at, nested) in message.messages.iter().enumerate() {
        collect(nested, &[path, &[MESSAGE_NESTED, locations::index(at)]].concat(), renames);
    }
}

/// The message that a member's path leads through, whether it is a field or a oneof, and its position.
fn find<'a>(file: &'a mut File, path: &[i32]) -> (&'a mut MessageType, i32, usize) {
    let position = |number: i32| usize::try_from(number).expect("positions are not negative");
    let (steps, member) = path.split_at(path.len() - 2);
    let mut message = &mut file.messages[position(steps[1])];
    for step in steps[2..].chunks(2) {
        message = &mut message.messages[position(step[1])];
    }
    (message, member[0], position(member[1]))
}
