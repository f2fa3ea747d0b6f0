//! Public imports: the file that imports says again, as aliases, all that the other one declares.

use super::{field::Field, imports::Imports, source::Source};

/// The declarations for one public import; `of` is the imported file.
pub(super) fn forward(of: &Source<'_>, imports: &mut Imports) -> String {
    let mut text = format!("// Symbols defined in public import of {}.", of.file.proto.name());
    let mut previous = "";
    for (keyword, name) in exported(of) {
        text.push_str(if keyword == previous { "\n" } else { "\n\n" });
        text.push_str(&format!("{keyword} {name} = {}", imports.of(&of.package.import_path, &name)));
        previous = keyword;
    }
    text
}

/// What the file declares for others to see, with the keyword of its declaration, in the order of the text.
pub(super) fn exported(of: &Source<'_>) -> Vec<(&'static str, String)> {
    let mut declared: Vec<(&'static str, String)> = Vec::new();
    let mut say = |keyword: &'static str, name: String| {
        if name.starts_with(char::is_uppercase) {
            declared.push((keyword, name));
        }
    };
    for (at, enumeration) in of.enums.iter().enumerate() {
        say("type", enumeration.name.clone());
        let index = of.index.get(&of.enums[at].full_name).expect("the index has every type of the file");
        for value in &enumeration.proto.value {
            say("const", index.value_name(value.name()));
        }
        say("var", format!("{}_name", enumeration.name));
        say("var", format!("{}_value", enumeration.name));
    }
    for message in of.messages.iter().filter(|message| !message.proto.options.as_ref().is_some_and(|options| options.map_entry())) {
        say("type", message.name.clone());
        let mut scratch = Imports::new(&of.package.import_path);
        let defaults: Vec<_> =
            message.fields.iter().filter_map(|field| field.default_declaration(&message.name, of.index, &mut scratch)).collect();
        for constant in [true, false] {
            for (_, [name, _], _) in defaults.iter().filter(|(is_constant, ..)| *is_constant == constant) {
                say(if constant { "const" } else { "var" }, name.clone());
            }
        }
        for (oneof, _) in message.oneofs.iter().enumerate() {
            for field in message.fields.iter().filter(|field: &&Field<'_>| field.oneof == Some(oneof)) {
                say("type", field.wrapper.clone());
            }
        }
    }
    for target in extension_order(of) {
        say("var", format!("E_{}", of.extensions[target].field.wrapper));
    }
    declared
}

/// Extensions in the order of their variables: grouped by what they extend.
fn extension_order(of: &Source<'_>) -> Vec<usize> {
    let mut targets: Vec<&str> = Vec::new();
    for extension in &of.extensions {
        if !targets.contains(&extension.field.proto.extendee()) {
            targets.push(extension.field.proto.extendee());
        }
    }
    let of_target = |target: &str| {
        let target = target.to_owned();
        of.extensions.iter().enumerate().filter(move |(_, e)| e.field.proto.extendee() == target).map(|(at, _)| at).collect::<Vec<_>>()
    };
    targets.into_iter().flat_map(of_target).collect()
}
