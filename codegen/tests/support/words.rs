//! A folder of schemas in which everything is called by the keywords and built-ins of all three languages, and which is as large and as
//! entangled as protobuf allows: a thousand fields, types that hold themselves, files of one package that need each other, and packages
//! that import each other in a circle.

use std::{collections::BTreeSet, fmt::Write as _, fs, path::Path};

/// Rust's, TypeScript's and Go's. Some are one name in one of the languages only.
const WORDS: [&str; 3] = [
    "as async await become box break const continue crate do dyn else enum extern false final fn for gen if impl in let loop macro match mod \
     move mut override priv pub ref return self Self static struct super trait true try type typeof union unsafe unsized use virtual where \
     while yield String Vec Option Some None Result Ok Err Box HashMap Default Clone Debug Message str i32 u8 usize core std alloc prost",
    "any arguments boolean case catch class constructor debugger declare default delete eval export extends finally from function get \
     globalThis hasOwnProperty implements import instanceof interface module new null number object of package private protected prototype \
     public require set string switch symbol this throw toJSON toString undefined valueOf var void with NaN Infinity Array Date Error Map \
     Object Promise Set Uint8Array create bigint never unknown infer keyof readonly unique asserts satisfies namespace",
    "append bool byte cap chan clear close comparable complex copy defer error fallthrough float32 float64 func go goto init int iota len main \
     make map max min nil panic print println range real recover rune select uint uintptr Reset ProtoMessage ProtoReflect Descriptor Marshal \
     GetType Context proto",
];

/// All words, each once.
fn words() -> BTreeSet<&'static str> {
    WORDS.iter().flat_map(|words| words.split_whitespace()).collect()
}

/// Writes the folder.
pub(crate) fn write(folder: &Path) {
    let put = |name: &str, syntax: &str, package: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        fs::write(path, format!("syntax = \"{syntax}\";\npackage {package};\n{text}")).expect("writable");
    };
    let each =
        |line: &dyn Fn(usize, &str) -> String| -> String { words().into_iter().enumerate().map(|(at, word)| line(at + 1, word)).collect() };
    let messages = each(&|_, word| {
        let own = format!(".words.messages.{word}");
        format!("message {word} {{ {own} again = 1; message Inner {{ repeated {own} {word} = 1; }} map<string, Inner> inner = 2; }}\n")
    });
    put("words/messages.proto", "proto3", "words.messages", &messages);
    let enums = each(&|_, word| {
        let own = format!(".words.enums.{word}");
        format!(
            "enum {word} {{ {word}_zero = 0; {word}_{word} = 1; }}\nmessage Of_{word} {{ {own} the_color = 1; optional {own} {word} = 2; }}\n"
        )
    });
    put("words/enums.proto", "proto3", "words.enums", &enums);
    let values = each(&|at, word| format!("{word} = {at};\n"));
    put("words/values.proto", "proto3", "words.values", &format!("enum Values {{ ZERO = 0;\n{values} }}\n"));
    // What differs by its case only is legal in proto2.
    let fields = each(&|at, word| format!("optional string {word} = {at};\n"));
    put("words/fields.proto", "proto2", "words.fields", &format!("message Fields {{\n{fields} }}\n"));
    let repeated = each(&|at, word| format!("repeated int64 {word} = {at};\n"));
    put("words/repeated.proto", "proto2", "words.repeated", &format!("message Fields {{\n{repeated} }}\n"));
    let oneofs = each(&|at, word| format!("oneof {word} {{ int32 {word}_a = {}; bytes {word}_b = {}; }}\n", 2 * at, 2 * at + 1));
    put("words/oneofs.proto", "proto2", "words.oneofs", &format!("message Oneofs {{\n{oneofs} }}\n"));
    let choices = each(&|at, word| format!("double {word} = {at};\n"));
    put("words/choices.proto", "proto2", "words.choices", &format!("message Choices {{ oneof choice {{\n{choices} }} }}\n"));
    for (number, words) in WORDS.iter().enumerate() {
        let package = words.split_whitespace().collect::<Vec<_>>().join(".");
        let name = format!("words/package{number}.proto");
        put(&name, "proto3", &format!("words.package{number}.{package}"), "message Deep { Deep deep = 1; }\n");
    }
    let wide: String = (1..=1000).map(|at| format!("string field_{at} = {at};\n")).collect();
    put("words/wide.proto", "proto3", "words.wide", &format!("message Wide {{\n{wide} }}\n"));
    for (name, package, text) in [
        ("cross/a", "cross", "import \"words/cross/b.proto\";\nmessage A { B b = 1; Kind kind = 2; map<int32, B.Inner> inner = 3; }\n"),
        (
            "cross/b",
            "cross",
            "import \"words/cross/c.proto\";\nmessage B { message Inner { C c = 1; } Inner inner = 1; }\nenum Kind { ZERO = 0; }\n",
        ),
        ("cross/c", "cross", "message C { C c = 1; }\n"),
        ("circle/a", "circle.one", "import \"words/circle/b.proto\";\nmessage A { words.circle.two.B b = 1; }\n"),
        ("circle/b", "circle.two", "import \"words/circle/c.proto\";\nmessage B { words.circle.one.C c = 1; }\n"),
        ("circle/c", "circle.one", "message C { C c = 1; }\n"),
    ] {
        put(&format!("words/{name}.proto"), "proto3", &format!("words.{package}"), text);
    }
    let mut config = String::new();
    for word in words() {
        writeln!(config, "[[queue]]\nname = \"{word}\"\nmessage = \"words.messages.{word}\"").expect("a string takes text");
    }
    config.push_str("[[queue]]\nname = \"wide\"\nmessage = \"words.wide.Wide\"\nreply = \"words.wide.Wide\"\n");
    fs::write(folder.join("qwerq.toml"), config).expect("writable");
}
