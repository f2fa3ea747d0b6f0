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
     Object Promise Set Uint8Array create bigint never unknown",
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
    let put = |name: &str, package: &str, text: &str| {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("writable");
        fs::write(path, format!("syntax = \"proto3\";\npackage {package};\n{text}")).expect("writable");
    };
    let each =
        |line: &dyn Fn(usize, &str) -> String| words().into_iter().enumerate().map(|(at, word)| line(at + 1, word)).collect::<String>();
    put(
        "words/messages.proto",
        "words.messages",
        &each(&|_, word| {
            format!(
                "message {word} {{ .words.messages.{word} again = 1; message Inner {{ repeated .words.messages.{word} {word} = 1; }} map<string, Inner> inner = 2; }}\n"
            )
        }),
    );
    put(
        "words/enums.proto",
        "words.enums",
        &each(&|_, word| {
            format!(
                "enum {word} {{ {word}_zero = 0; {word}_{word} = 1; }}\nmessage Of_{word} {{ {word} of = 1; optional {word} {word} = 2; }}\n"
            )
        }),
    );
    put("words/values.proto", "words.values", &format!("enum Values {{ ZERO = 0;\n{} }}\n", each(&|at, word| format!("{word} = {at};\n"))));
    put("words/fields.proto", "words.fields", &format!("message Fields {{\n{} }}\n", each(&|at, word| format!("string {word} = {at};\n"))));
    put(
        "words/optional.proto",
        "words.optional",
        &format!("message Fields {{\n{} }}\n", each(&|at, word| format!("optional int64 {word} = {at};\n"))),
    );
    put(
        "words/oneofs.proto",
        "words.oneofs",
        &format!(
            "message Oneofs {{\n{} }}\n",
            each(&|at, word| { format!("oneof {word} {{ int32 {word}_a = {}; bytes {word}_b = {}; }}\n", 2 * at, 2 * at + 1) })
        ),
    );
    put(
        "words/choices.proto",
        "words.choices",
        &format!("message Choices {{ oneof choice {{\n{} }} }}\n", each(&|at, word| format!("double {word} = {at};\n"))),
    );
    for (number, words) in WORDS.iter().enumerate() {
        let package: Vec<&str> = words.split_whitespace().collect();
        put(
            &format!("words/package{number}.proto"),
            &format!("words.package{number}.{}", package.join(".")),
            "message Deep { Deep deep = 1; }\n",
        );
    }
    let wide: String = (1..=1000).map(|at| format!("string field_{at} = {at};\n")).collect();
    put("words/wide.proto", "words.wide", &format!("message Wide {{\n{wide} }}\n"));
    put(
        "words/cross/a.proto",
        "words.cross",
        "import \"words/cross/b.proto\";\nmessage A { B b = 1; Kind kind = 2; map<int32, B.Inner> inner = 3; }\n",
    );
    put(
        "words/cross/b.proto",
        "words.cross",
        "import \"words/cross/c.proto\";\nmessage B { message Inner { C c = 1; } Inner inner = 1; }\nenum Kind { KIND_UNSPECIFIED = 0; }\n",
    );
    put("words/cross/c.proto", "words.cross", "message C { C c = 1; }\n");
    put("words/circle/a.proto", "words.circle.one", "import \"words/circle/b.proto\";\nmessage A { words.circle.two.B b = 1; }\n");
    put("words/circle/b.proto", "words.circle.two", "import \"words/circle/c.proto\";\nmessage B { words.circle.one.C c = 1; }\n");
    put("words/circle/c.proto", "words.circle.one", "message C { C c = 1; }\n");
    let mut config = String::new();
    for word in words() {
        writeln!(config, "[[queue]]\nname = \"{word}\"\nmessage = \"words.messages.{word}\"").expect("a string takes text");
    }
    config.push_str("[[queue]]\nname = \"wide\"\nmessage = \"words.wide.Wide\"\nreply = \"words.fields.Fields\"\n");
    fs::write(folder.join("qwerq.toml"), config).expect("writable");
}
